-- What an edge needs of tables that are not its own: to know a token by its hash and note its use, and to count open dead letters for its health.
-- Before, it took on the roles that make tokens and users and that work on letters. The role is made by infra/postgres/migrate.ts.
grant select, update (last_used_at) on tokens to tributary_edge;
create policy edge_reads on tokens for select to tributary_edge using (true);
create policy edge_notes_uses on tokens for update to tributary_edge using (true) with check (true);
grant select (kind, state) on dead_letters to tributary_edge;
create policy edge on dead_letters for select to tributary_edge using (true);
