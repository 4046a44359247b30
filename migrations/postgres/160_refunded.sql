-- What settle has given back of a sale, so that reports need no rule of their own. Null: settled before this was kept.
alter table product_sales add column refunded_minor bigint;
