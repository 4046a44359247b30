-- Whom a client trusts whatever the fraud rules find: each entry with its author and its reason.
alter table clients
  add column fraud_exclusions jsonb not null default '[]' check (jsonb_typeof(fraud_exclusions) = 'array');
