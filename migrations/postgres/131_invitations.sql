-- Invitations of partners and of clients, and the mails that wait or have left.

create table invitations (
  invitation_id int primary key generated always as identity,
  kind text not null check (kind in ('partner', 'client')),
  email text not null check (email = lower(email)),
  partner_id int,
  client_id int,
  locale text not null check (locale in ('es', 'en')),
  -- What the token is made of, together with the secret of the installation; and the SHA-256 by which a token is found.
  seed text not null,
  sha256 bytea not null unique check (length(sha256) = 32),
  invited_by text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  expires_at timestamptz(3) not null,
  accepted_at timestamptz(3),
  revoked_at timestamptz(3),
  check ((kind = 'partner') = (partner_id is not null)),
  check ((kind = 'client') = (client_id is not null)),
  check (accepted_at is null or revoked_at is null)
);
create index invitations_email on invitations (email);

alter table invitations enable row level security;
alter table invitations force row level security;
-- Read by who sees the client, or a client of the partner; the operator sees all. Written before any tenant is known, by who accepts.
grant select on invitations to tributary_app;
create policy tenant on invitations for select to tributary_app
  using (client_id = any (app_clients()) or (partner_id is not null and (0 = any (app_clients()) or exists (
    select from partners p where p.partner_id = invitations.partner_id and p.client_ids && app_clients()))));
grant select, insert, update on invitations to tributary_tokens;
create policy everything on invitations to tributary_tokens using (true) with check (true);

-- One row a happening and recipient, written in the transaction of the happening. Holds no secret: a link is made when the mail leaves.
create table mails (
  mail_id bigint primary key generated always as identity,
  -- kind:id of what happened, e.g. invitation:7
  happening text not null,
  recipient text not null,
  template text not null,
  locale text not null check (locale in ('es', 'en')),
  facts jsonb not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  -- Tried again until a day has passed.
  due_at timestamptz(3) not null default clock_timestamp(),
  attempts int not null default 0,
  sent_at timestamptz(3),
  error text,
  unique (happening, recipient)
);
create index mails_due on mails (due_at) where sent_at is null;

alter table mails enable row level security;
alter table mails force row level security;
grant select, insert, update on mails to tributary_tokens;
create policy everything on mails to tributary_tokens using (true) with check (true);
