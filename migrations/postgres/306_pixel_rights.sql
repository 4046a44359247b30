-- What the login of a pixel host could still destroy: the vault of a client, under which all its recordings lie, and when a visit began or was erased.
-- It makes a vault where there is none, and counts what it stores of a visit.
drop policy pixel on client_secrets;
create policy pixel on client_secrets for select to tributary_pixel using (client_id = any (app_clients()));
create policy pixel_vaults on client_secrets for update to tributary_pixel
  using (client_id = any (app_clients()) and recording_vault is null) with check (client_id = any (app_clients()) and recording_vault is not null);
revoke update on recordings from tributary_pixel;
grant update (chunks, events, bytes, last_at, consent) on recordings to tributary_pixel;
