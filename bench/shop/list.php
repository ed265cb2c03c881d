<?php
// Twenty products of a shelf.
require 'common.php';

$shelf = (int) $_GET['shelf'];
$found = ask('SELECT id, name, price FROM product WHERE shelf = ? ORDER BY name LIMIT 20', $shelf);
$rows = $found->fetchAll(PDO::FETCH_ASSOC);
page("Shelf $shelf", '<ul>' . implode(array_map('row', $rows)) . '</ul>');
