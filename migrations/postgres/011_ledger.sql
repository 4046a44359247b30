-- The ledger: immutable, balanced entries in integer minor units. Insert-only by grant, balanced by trigger; a correction is another entry.
create table ledger_entries (
  client_id int not null,
  entry_id text not null,
  kind text not null check (kind in ('earned', 'reversal', 'adjustment', 'tier_adjustment', 'none')),
  partner_id int not null,
  campaign_id int,
  conversion_id text not null,
  change_id text not null,
  conversion_version int not null,
  event_type text not null,
  segment text,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  -- What the partner gains (positive) or loses by this entry.
  amount_minor bigint not null check (kind <> 'none' or amount_minor = 0),
  -- What of it is booked to held:partner.
  held_minor bigint not null,
  reason text,
  contract_id int,
  contract_version int,
  commission_type text,
  formula text not null,
  inputs jsonb not null,
  occurred_at timestamptz(3) not null,
  payable_from timestamptz(3),
  -- Month of the sale in America/Mexico_City.
  year int not null,
  month int not null check (month between 1 and 12),
  held boolean not null,
  reverses_entry_id text,
  content_hash bytea not null,
  -- When this row was written; two readings of one log need not agree on it.
  stored_at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, entry_id)
);
-- In these tables no index but the key begins with the client: the policy and a condition that both name it make any such index look as good.
create index ledger_entries_conversion on ledger_entries (conversion_id);
create index ledger_entries_month on ledger_entries (partner_id, client_id, year, month);

-- Debits positive, credits negative.
create table ledger_lines (
  client_id int not null,
  entry_id text not null,
  line int not null check (line > 0),
  account text not null,
  currency text not null,
  amount_minor bigint not null,
  primary key (client_id, entry_id, line),
  foreign key (client_id, entry_id) references ledger_entries
);

-- Law M1, checked when the transaction ends: the lines of an entry sum to zero in each currency, and an amount has lines.
create function check_entry_balance() returns trigger language plpgsql as $$
declare
  unbalanced text;
begin
  select string_agg(currency || ' ' || total, ', ') into unbalanced
  from (
    select currency, sum(amount_minor) as total from ledger_lines
    where client_id = new.client_id and entry_id = new.entry_id
    group by currency
  ) as sums
  where total <> 0;
  if unbalanced is not null then
    raise exception 'ledger entry % of client % does not balance: %', new.entry_id, new.client_id, unbalanced using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger balanced after insert on ledger_lines deferrable initially deferred
  for each row execute function check_entry_balance();

create function check_entry_lines() returns trigger language plpgsql as $$
begin
  if not exists (select from ledger_lines where client_id = new.client_id and entry_id = new.entry_id) then
    raise exception 'ledger entry % of client % moves % and has no lines', new.entry_id, new.client_id, new.amount_minor using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger has_lines after insert on ledger_entries deferrable initially deferred
  for each row when (new.amount_minor <> 0) execute function check_entry_lines();

-- What a conversion earns now: the sum of its entries, computed anew whenever one of them is added. `version` is their number.
create table commissions (
  client_id int not null,
  commission_id text not null,
  conversion_id text not null,
  version int not null,
  partner_id int not null,
  campaign_id int,
  event_type text not null,
  segment text,
  type text,
  amount_minor bigint not null,
  currency text not null,
  -- Pending also while a plain hold runs: that ends by itself at payable_from. On hold: booked to held:partner until a decision.
  status text not null check (status in ('pending', 'on_hold', 'reversed')),
  -- Why nothing was earned, or why it was taken back.
  reason text,
  year int not null,
  month int not null,
  occurred_at timestamptz(3) not null,
  payable_from timestamptz(3),
  contract_id int,
  contract_version int,
  -- Formula and inputs of what was earned, and every entry with its amount.
  receipt jsonb not null,
  primary key (client_id, conversion_id),
  unique (commission_id, client_id)
) with (fillfactor = 80);
create index commissions_month on commissions (partner_id, client_id, year, month);

grant select, insert on ledger_entries, ledger_lines to tributary_app;
grant select, insert, update on commissions to tributary_app;
do $$
declare
  name text;
begin
  foreach name in array array['ledger_entries', 'ledger_lines', 'commissions'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()))', name);
  end loop;
end $$;
