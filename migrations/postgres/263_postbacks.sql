-- Postbacks: which were taken already, and what the processors of payments are known by.

-- One row a notice of a sender that the log has: what comes again is answered `duplicate`. The key is a
-- hash, for senders put anything into theirs.
create table postback_marks (
  client_id int not null,
  -- The `source` of its event, e.g. postback:stripe.
  source text not null check (length(source) between 1 and 128),
  key bytea not null check (length(key) = 32),
  marked_at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, source, key)
);
create index postback_marks_age on postback_marks (marked_at);
alter table postback_marks enable row level security;
alter table postback_marks force row level security;
create policy tenant on postback_marks to tributary_edge using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy keeper on postback_marks to tributary_keeper using (true);
grant select, insert on postback_marks to tributary_edge;
grant select, delete on postback_marks to tributary_keeper;

-- What a client's account at a payment processor signs with, and how its payments are read: sealed as one.
create table payment_processors (
  client_id int not null,
  processor text not null check (processor ~ '^[a-z]{2,40}$'),
  sealed text not null,
  updated_at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, processor)
);
alter table payment_processors enable row level security;
alter table payment_processors force row level security;
create policy tenant on payment_processors to tributary_secrets, tributary_edge using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
grant select, insert, update, delete on payment_processors to tributary_secrets;
grant select on payment_processors to tributary_edge;
