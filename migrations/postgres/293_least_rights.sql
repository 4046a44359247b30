-- Each edge host has a login of its own, which may do what that host does and nothing else. Before, ingest, links, pixel and upload were one login with all
-- rights of tributary_app. The roles are made by infra/postgres/migrate.ts, which takes tributary_app from tributary_app_ingest after this file.

-- Every host: its secrets by fingerprint, the state of its path into the log, and whether reference data have changed.
grant select, insert on installation_secrets to tributary_host;
grant select, insert, update, delete on secret_holders to tributary_host;
grant select, insert, delete on ingest_path_checks to tributary_host;
grant select on reference_changes to tributary_host;

-- The pixel host. tributary_edge keeps the same rights for pixel hosts of the release before.
grant select, insert, update, delete on pixel_sightings to tributary_pixel;
create policy pixel on pixel_sightings to tributary_pixel using (true) with check (true);
do $$
declare
  name text;
begin
  foreach name in array array['recordings', 'recording_chunks', 'recording_keys'] loop
    execute format('create policy pixel on %I to tributary_pixel using (client_id = any (app_clients())) with check (client_id = any (app_clients()))', name);
  end loop;
end $$;
grant select, insert, update on recordings to tributary_pixel;
grant select, insert on recording_chunks, recording_keys to tributary_pixel;
grant select (client_id, recording_vault), update (recording_vault) on client_secrets to tributary_pixel;
create policy pixel on client_secrets to tributary_pixel using (client_id = any (app_clients())) with check (client_id = any (app_clients()));

-- The upload host, and the route of ingest that takes whole files. tributary_edge keeps the same rights for hosts of the release before.
create policy upload on imports to tributary_upload using (true) with check (true);
create policy upload on import_rows to tributary_upload using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy upload on uploads for select to tributary_upload using (true);
create policy upload on upload_parts to tributary_upload using (true) with check (true);
grant select, insert, update on imports to tributary_upload;
grant select, insert, delete on import_rows to tributary_upload;
grant select on uploads to tributary_upload;
grant select, insert, update (stored_at) on upload_parts to tributary_upload;
-- The end of an import is announced by the login itself: of the outbox it may write nothing else, e.g. no event. An upload host of the release before
-- does so as tributary_app_ingest.
create policy announced on imports for select to tributary_app_upload, tributary_app_ingest using (client_id = any (app_clients()));
create policy announced on outbox for insert to tributary_app_upload, tributary_app_ingest
  with check (topic = 'domain.changes' and client_id = any (app_clients()));
grant select on imports to tributary_app_upload, tributary_app_ingest;
grant insert on outbox to tributary_app_upload, tributary_app_ingest;

-- The ingest host: which groups host a sink, replays of the log that an admin token asks for, and a rule that it tries on history or applies to it.
grant select on group_hosting to tributary_app_ingest;
grant select, insert on replays to tributary_app_ingest;
do $$
declare
  name text;
begin
  foreach name in array array['clients', 'rules', 'money_days', 'relo_budgets', 'jobs'] loop
    execute format('grant select on %I to tributary_app_ingest', name);
    execute format('create policy backfill on %I for select to tributary_app_ingest using (client_id = any (app_clients()))', name);
  end loop;
end $$;
grant insert on jobs, audit to tributary_app_ingest;
create policy backfill_starts on jobs for insert to tributary_app_ingest with check (kind = 'backfill' and client_id = any (app_clients()));
create policy backfill_starts on audit for insert to tributary_app_ingest
  with check (action = 'rule.backfill_started' and client_id = any (app_clients()));

-- What stages remember of money: workers write it, and the keeper and the command line, which repeat their work. The platform API shows orders from it,
-- and both it and the ingest host try rules on it; they read alone, and no other edge does. Rows are of no single tenant, see 005.
do $$
declare
  name text;
begin
  foreach name in array array['memory_state', 'memory_outcome', 'memory_mark'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy workers on %I to tributary_app_worker, tributary_app_keeper using (true) with check (true)', name);
    -- The other logins inherit from tributary_app; this is for it alone.
    execute format('create policy command_line on %I to tributary_app using (current_user = ''tributary_app'') with check (current_user = ''tributary_app'')', name);
    execute format('create policy readers on %I for select to tributary_app_api, tributary_app_ingest using (true)', name);
    execute format('grant select on %I to tributary_app_ingest', name);
  end loop;
end $$;
