-- What the platform API shows and changes of users and of tokens.

alter table users
  -- To the hour: who comes in is written down once an hour.
  add column last_seen_at timestamptz(3),
  -- Grows with every change, so that of two who saw the same state one changes it.
  add column version int not null default 1 check (version > 0);

-- An upload token belongs to a partner: who sees a client of that partner sees it, and the operator sees all. Those of a client are seen already.
create policy partner on tokens for select to tributary_app
  using (partner_id is not null and (0 = any (app_clients()) or exists (
    select from partners p where p.partner_id = tokens.partner_id and p.client_ids && app_clients())));
