-- When a decision took an identifier from a device; null: the edge holds.
alter table identity_edges add column unlinked_at timestamptz(3);
