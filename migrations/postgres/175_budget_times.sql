-- When a budget was set for the first time; of those that are there when it was set last. The second statement writes it
-- as the first one's owner may: no policy lets that one update rows.
alter table relo_budgets add column created_at timestamptz(3);
alter table relo_budgets
  alter column created_at type timestamptz(3) using updated_at,
  alter column created_at set default clock_timestamp(),
  alter column created_at set not null;
