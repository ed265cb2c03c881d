<?php
// What the pages share: the database, and the frame of a page.

$db = new PDO(
    'pgsql:dbname=postgres;user=postgres;host=' . getenv('DATABASE'),
    options: [PDO::ATTR_PERSISTENT => (bool) getenv('PERSISTENT')]
);

function ask(string $query, int ...$values): PDOStatement
{
    global $db;
    $statement = $db->prepare($query);
    $statement->execute($values);
    return $statement;
}

function page(string $title, string $body): void
{
    echo "<!DOCTYPE html>\n<html><head><title>$title</title></head>\n<body><h1>$title</h1>\n$body</body></html>\n";
}

function row(array $product): string
{
    $name = htmlspecialchars($product['name']);
    return "<li><a href=\"product.php?id={$product['id']}\">$name</a> {$product['price']}</li>\n";
}
