-- Who may use the platform: the identity provider says who somebody is, this table what they may do. Read on each request, before any tenant is known.
create table users (
  user_id int primary key generated always as identity,
  email text not null check (email = lower(email) and email ~ '^[^@\s]+@[^@\s]+$'),
  name text not null,
  role text not null check (role in ('admin', 'client_manager', 'partner', 'client_user', 'viewer')),
  partner_id int,
  -- Those assigned to a client manager, or the one of a client user.
  client_ids int[] not null default '{}',
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),
  removed_at timestamptz(3),
  check ((role = 'partner') = (partner_id is not null))
);
create unique index users_email on users (email) where removed_at is null;

alter table users enable row level security;
alter table users force row level security;
grant select, insert, update on users to tributary_tokens;
create policy everything on users to tributary_tokens using (true) with check (true);
