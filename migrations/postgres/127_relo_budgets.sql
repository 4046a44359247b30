-- What a client wants to spend on commissions in a month, on all of it (segment null) or on one segment.
create table relo_budgets (
  budget_id int primary key generated always as identity,
  client_id int not null,
  year int not null check (year between 2000 and 2100),
  month int not null check (month between 1 and 12),
  segment text,
  version int not null default 1,
  amount_minor bigint not null check (amount_minor > 0),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  note text,
  on_overspend text not null default 'alert' check (on_overspend in ('alert', 'stop') and (on_overspend = 'alert' or segment is null)),
  updated_at timestamptz(3) not null default clock_timestamp(),
  unique nulls not distinct (client_id, year, month, segment)
);
alter table relo_budgets enable row level security;
alter table relo_budgets force row level security;
create policy tenant on relo_budgets to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
grant select, insert, update on relo_budgets to tributary_app;
