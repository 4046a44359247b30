-- Money by the day: the statements of the triggers are planned once a session. Until now each was put together and planned anew whenever rows were
-- written, also for the half of an upsert that changed none: two thirds of a millisecond seven times for each batch of conversions. What is added is
-- the same, so workers of before and after this work side by side.
do $$
declare
  summed record;
  kept record;
begin
  for summed in values ('sales', 'product_sales'), ('conversions', 'conversions'), ('ledger', 'ledger_entries'), ('commissions', 'commissions') loop
    for kept in values
      ('added', 'insert', 'new table as added', 'select 1 as sign, * from added'),
      ('changed', 'update', 'old table as removed new table as added', 'select 1 as sign, * from added union all select -1, * from removed'),
      ('removed', 'delete', 'old table as removed', 'select -1 as sign, * from removed') loop
      execute format('create function money_days_%s_%s() returns trigger language plpgsql as %L', summed.column1, kept.column1,
        'begin' || money_days_of(summed.column1, kept.column4) || '; return null; end');
      execute format('create or replace trigger money_days_%s after %s on %I referencing %s for each statement execute function money_days_%s_%s()',
        kept.column1, kept.column2, summed.column2, kept.column3, summed.column1, kept.column1);
    end loop;
  end loop;
end $$;
drop function add_to_money_days();
