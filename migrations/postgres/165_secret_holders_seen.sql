-- Processes report each minute that they run: a rotation of the secret no longer waits for one that is gone and was ruled out.
-- One that was ruled out stays here, for until it was last seen it may have signed with the old secret.
alter table secret_holders
  add column seen_at timestamptz(3) not null default clock_timestamp(),
  add column ruled_out_at timestamptz(3);
