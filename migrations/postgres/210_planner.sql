-- What a client plans to spend on commissions in a month, by partner and segment. Insert-only: each step of a plan is a row, and
-- the newest one says where the plan stands. An approval keeps the version that it approves.
create table planner_months (
  client_id int not null,
  year int not null check (year between 2000 and 2100),
  month int not null check (month between 1 and 12),
  step int not null check (step > 0),
  version int not null check (version > 0),
  status text not null check (status in ('draft', 'approved')),
  -- Of all amounts of its version.
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  -- E-mail address of the user.
  actor text not null check (actor <> ''),
  reason text,
  -- Lines against the version before; of an approval against the version that was approved before.
  added int not null,
  changed int not null,
  removed int not null,
  at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, year, month, step)
);
-- Segment null: all segments of the partner that have no line of their own. The budget is planned commission.
create table planner_lines (
  client_id int not null,
  year int not null,
  month int not null,
  version int not null,
  line int not null check (line > 0),
  partner_id int not null,
  segment text,
  budget_minor bigint not null check (budget_minor >= 0),
  target_conversions int not null check (target_conversions >= 0),
  -- Percent, as the contract was expected to pay when the plan was written.
  rate numeric(7, 4) check (rate between 0 and 100),
  primary key (client_id, year, month, version, line),
  unique nulls not distinct (client_id, year, month, version, partner_id, segment)
);
create index planner_lines_partner on planner_lines (partner_id, client_id, year, month);

alter table planner_months enable row level security;
alter table planner_months force row level security;
alter table planner_lines enable row level security;
alter table planner_lines force row level security;
create policy tenant on planner_months to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy tenant on planner_lines to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
grant select, insert on planner_months, planner_lines to tributary_app;
