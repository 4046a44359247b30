-- What reads of money cost at millions of rows. The clients of the transaction are read once a statement and no longer once a row: that was most
-- of the time of every sum. And what partners are owed is summed without looking at the rows of the ledger.
do $$
declare
  name text;
begin
  foreach name in array array['product_sales', 'conversions', 'commissions', 'ledger_entries', 'ledger_lines'] loop
    execute format('alter policy tenant on %I using (client_id = any ((select app_clients())::int[])) with check (client_id = any ((select app_clients())::int[]))', name);
  end loop;
end $$;
create index ledger_entries_owed on ledger_entries (partner_id, client_id, currency) include (amount_minor, held_minor);
