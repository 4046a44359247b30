-- Hosts of edges write what they write, by column and by state. Every statement here holds for hosts of the release before too: those store recordings and
-- work off files as tributary_edge, so what that role keeps for them goes one release later (docs/security.md, "One release later").

-- Edges check what sources send, and pull nothing: the credential of a pull is the keeper's. A new column is not read by edges until it is granted.
revoke select on sources from tributary_edge;
grant select (source_id, client_id, version, slug, kind, state, mapping, constants, event_names, allow_ips, unsigned, unsigned_money, secret, vault,
  key_sha256, pull, last_pull_at, last_pull_stats, updated_at) on sources to tributary_edge;

-- Whose file it is, what it is called and how it is read was settled when it began; asking for a cancel and undoing are work of the platform API.
revoke insert, update on imports from tributary_edge, tributary_upload;
grant insert (import_id, client_id, partner_id, filename, source, status, created_by) on imports to tributary_edge, tributary_upload;
grant update (status, bytes, parts, sha256, same_file_as, started_at, finished_at, heartbeat_at, leased_by, lease_until, fence, checkpoint, total, accepted,
  duplicate, rejected, file_sums, stored_sums, error_codes, error, file_removed_at, errors_removed_at, errors_erase_at)
  on imports to tributary_edge, tributary_upload;
-- The importer takes whatever waits, of every client, so no policy by client would hold it. An import that has ended stays as it ended: of it only what
-- was removed from object storage is noted. A trigger, since a policy cannot compare the row before with the row after.
create function refuse_change_of_ended() returns trigger language plpgsql as $$
begin
  raise exception '% has ended', old.import_id using errcode = 'insufficient_privilege';
end $$;
create trigger ended before update of status, bytes, parts, sha256, same_file_as, started_at, finished_at, heartbeat_at, leased_by, lease_until, fence,
  checkpoint, total, accepted, duplicate, rejected, file_sums, stored_sums, error_codes, error on imports
  for each row when (old.finished_at is not null and current_user in ('tributary_edge', 'tributary_upload')) execute function refuse_change_of_ended();

-- As 306 has it for tributary_pixel: a vault is made where there is none, and of a visit only counts move.
drop policy vault on client_secrets;
create policy edge on client_secrets for select to tributary_edge using (client_id = any (app_clients()));
create policy edge_vaults on client_secrets for update to tributary_edge
  using (client_id = any (app_clients()) and recording_vault is null) with check (client_id = any (app_clients()) and recording_vault is not null);
revoke update on recordings from tributary_edge;
grant update (chunks, events, bytes, last_at, consent) on recordings to tributary_edge;
