<?php
// A product, and what was bought of it last.
require 'common.php';

$product = ask('SELECT * FROM product WHERE id = ?', $_GET['id'])->fetch(PDO::FETCH_ASSOC);
$sales = ask('SELECT number, sold FROM sale WHERE product = ? ORDER BY id DESC LIMIT 5', $_GET['id']);
$last = '';
foreach ($sales as $sale) {
    $last .= "<li>{$sale['number']} at {$sale['sold']}</li>\n";
}
page(
    htmlspecialchars($product['name']),
    "<p>{$product['about']}</p><p>{$product['price']}, {$product['stock']} left</p><ul>$last</ul>"
);
