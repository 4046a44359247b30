-- Money by the day of its sale: figures of weeks and years, and what partners are owed, add these up instead of every sale. Kept by triggers in the
-- transaction of the rows themselves, so a row and its sum are seen together, and a replay that changes nothing adds nothing. A statement adds rows of
-- its own (rows that all writers shared would make them wait for each other, or deadlock); the keeper adds them up (modules/figures/money-days.ts).
create table money_days (
  client_id int not null,
  -- Of what it is the sum: sale lines without second copies and refunds, conversions, entries of the ledger, commissions.
  source text not null check (source in ('sales', 'conversions', 'ledger', 'commissions')),
  -- Of the sale, in America/Mexico_City.
  day date not null,
  -- Year and month in which it is booked, as 202611; null where nothing is.
  period int,
  partner_id int,
  campaign_id int,
  event_type text not null,
  segment text,
  currency text not null,
  -- Credit status, status of the conversion, kind of the entry, status of the commission.
  status text not null,
  -- Of sale lines without a partner.
  reason text,
  n bigint not null,
  amount_minor numeric not null,
  -- What of the amount was given back (sales, where settle has kept it) or is held (ledger).
  part_minor numeric not null,
  -- False: a difference that was not added up yet.
  is_sum boolean not null default false
);
-- As in the tables that it sums, each reading has an index of its own; the policy adds the client.
create index money_days_client on money_days (client_id, source, day);
create index money_days_partner on money_days (partner_id, source, day) where partner_id is not null;
create index money_days_campaign on money_days (campaign_id, source, day) where campaign_id is not null;
create index money_days_fresh on money_days (client_id, source, day) where not is_sum;

-- Rows for money_days as a statement: those of `changed`, a relation of rows of `source` with their `sign`.
create function money_days_of(source text, changed text) returns text language plpgsql immutable as $$
declare
  amounts text := case source
    when 'sales' then 't, segment, coalesce(currency, ''MXN''), credit_status, case when credit_status = ''unattributed'' then credit_reason end, null::int,
      sum(sign), sum(sign * coalesce(value_minor, 0)::numeric), sum(sign * coalesce(refunded_minor, 0)::numeric)'
    when 'conversions' then 'event_type, segment, currency, status, null, null::int, sum(sign), 0, 0'
    when 'ledger' then 'event_type, segment, currency, kind, null, year * 100 + month,
      sum(sign), sum(sign * amount_minor::numeric), sum(sign * held_minor::numeric)'
    when 'commissions' then 'event_type, segment, currency, status, null, year * 100 + month, sum(sign), sum(sign * amount_minor::numeric), 0'
  end;
begin
  return format('
    insert into money_days (client_id, source, day, partner_id, campaign_id, event_type, segment, currency, status, reason, period,
      n, amount_minor, part_minor)
    select * from (
      select client_id, %L, (occurred_at at time zone ''America/Mexico_City'')::date, partner_id, campaign_id, %s
      from (%s) as changed where %s group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
        as sums (c, s, d, p, k, e, g, m, a, r, b, n, amount, part)
    where n <> 0 or amount <> 0 or part <> 0',
    source, amounts, changed, case source when 'sales' then 't <> ''refund'' and merged_into is null' else 'true' end);
end $$;

create function add_to_money_days() returns trigger language plpgsql as $$
begin
  execute money_days_of(tg_argv[0], case tg_op
    when 'INSERT' then 'select 1 as sign, * from added'
    when 'DELETE' then 'select -1 as sign, * from removed'
    else 'select 1 as sign, * from added union all select -1, * from removed' end);
  return null;
end $$;

-- Who writes a row writes its difference.
grant select, insert on money_days to tributary_app;
grant select, insert, delete on money_days to tributary_keeper;

do $$
declare
  summed record;
begin
  for summed in values ('sales', 'product_sales'), ('conversions', 'conversions'), ('ledger', 'ledger_entries'), ('commissions', 'commissions') loop
    execute format('create trigger money_days_added after insert on %I referencing new table as added
      for each statement execute function add_to_money_days(%L)', summed.column2, summed.column1);
    execute format('create trigger money_days_changed after update on %I referencing old table as removed new table as added
      for each statement execute function add_to_money_days(%L)', summed.column2, summed.column1);
    execute format('create trigger money_days_removed after delete on %I referencing old table as removed
      for each statement execute function add_to_money_days(%L)', summed.column2, summed.column1);
    -- Writers wait for the triggers' locks until this commits, so no row is summed twice or never. An owner that is no superuser sees none by force.
    execute format('alter table %I no force row level security', summed.column2);
    execute money_days_of(summed.column1, format('select 1 as sign, * from %I', summed.column2));
    execute format('alter table %I force row level security', summed.column2);
  end loop;
  update money_days set is_sum = true;
end $$;

alter table money_days enable row level security;
alter table money_days force row level security;
create policy tenant on money_days to tributary_app using (client_id = any ((select app_clients())::int[]))
  with check (client_id = any ((select app_clients())::int[]));
-- Adds up the days of all tenants: the process takes this role on for a transaction.
create policy schedule on money_days to tributary_keeper using (true) with check (true);
