-- Law M1: lines belong to an entry that is there, and those of an entry sum to zero in each currency. Checked once for all lines that a statement
-- adds, where each line was looked up for its entry, which it locked, and summed with its siblings when the transaction ended. A statement now has to
-- add whole entries, as those of every writer do, also of the release before: until now it was a transaction.
create function check_added_lines() returns trigger language plpgsql
-- A plan is kept, also one that was made while the tables were empty, when a scan looks cheap.
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  broken record;
begin
  -- A query of its own for each entry, as `limit` makes it, has no plan but the key's index.
  select touched.client_id, touched.entry_id into broken
  from (select distinct client_id, entry_id from added) as touched
    left join lateral (
      select true as is_there from ledger_entries as entry
      where entry.client_id = touched.client_id and entry.entry_id = touched.entry_id limit 1
    ) as entry on true
  where is_there is null limit 1;
  if found then
    raise exception 'lines of client % name the entry %, which is not there', broken.client_id, broken.entry_id
      using errcode = 'foreign_key_violation';
  end if;
  -- What is added sums to zero, as what was there did. Where it does not, it may be a line that was lost and comes back: then all lines have to.
  select touched.client_id, touched.entry_id, sums.unbalanced into broken
  from (
      select distinct client_id, entry_id
      from (select client_id, entry_id from added group by client_id, entry_id, currency having sum(amount_minor) <> 0) as moved
    ) as touched
    cross join lateral (
      select string_agg(currency || ' ' || total, ', ') as unbalanced
      from (
        select currency, sum(amount_minor) as total from ledger_lines as line
        where line.client_id = touched.client_id and line.entry_id = touched.entry_id
        group by currency
      ) as totals
      where total <> 0
    ) as sums
  where unbalanced is not null limit 1;
  if found then
    raise exception 'ledger entry % of client % does not balance: %', broken.entry_id, broken.client_id, broken.unbalanced
      using errcode = 'check_violation';
  end if;
  return null;
end $$;
create trigger lines_added after insert on ledger_lines referencing new table as added
  for each statement execute function check_added_lines();

-- Entries are only ever inserted. Whose hand may delete one deletes its lines first.
create function check_removed_entries() returns trigger language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  if exists (select from removed join ledger_lines using (client_id, entry_id)) then
    raise exception 'a ledger entry that has lines stays' using errcode = 'foreign_key_violation';
  end if;
  return null;
end $$;
create trigger entries_removed after delete on ledger_entries referencing old table as removed
  for each statement execute function check_removed_entries();

drop trigger balanced on ledger_lines;
drop function check_entry_balance();
alter table ledger_lines drop constraint ledger_lines_client_id_entry_id_fkey;
