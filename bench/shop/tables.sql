DROP TABLE IF EXISTS sale, product;
CREATE TABLE product AS
    SELECT id, id % 40 AS shelf, 'Product ' || id AS name, (id % 97 + 0.95)::numeric(8, 2) AS price,
           1000000 AS stock, repeat('It is good. ', 20) AS about
    FROM generate_series(1, 1000) AS id;
ALTER TABLE product ADD PRIMARY KEY (id);
CREATE INDEX ON product (shelf);
CREATE TABLE sale (
    id serial PRIMARY KEY,
    product integer NOT NULL REFERENCES product,
    number integer NOT NULL,
    sold timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON sale (product, id);
VACUUM ANALYZE product;
