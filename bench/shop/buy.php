<?php
// Buys some of a product.
require 'common.php';

[$id, $number] = [(int) $_POST['id'], (int) $_POST['number']];
$db->beginTransaction();
$product = ask('SELECT name, price FROM product WHERE id = ? FOR UPDATE', $id)->fetch(PDO::FETCH_ASSOC);
ask('UPDATE product SET stock = stock - ? WHERE id = ?', $number, $id);
ask('INSERT INTO sale (product, number) VALUES (?, ?)', $id, $number);
$db->commit();
page('Thank you', "<p>You bought $number of " . htmlspecialchars($product['name']) . "</p>\n");
