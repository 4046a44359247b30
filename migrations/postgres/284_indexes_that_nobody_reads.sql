-- Two indexes that every sale paid for and no read asks any more: what partners are owed is summed from money_days since 245, and sale lines of a
-- client are found by product_sales_when, which is the same but for refunds and second copies.
drop index ledger_entries_owed;
drop index product_sales_sold;
