-- Reprocessing over the platform API: a keeper compares a window and keeps what differs, and writes it when that is asked for.
alter table moves drop constraint moves_move_check;
alter table moves add constraint moves_move_check check (move in ('rewind', 'relearn', 'replay', 'reprocess'));
alter table moves
  -- What a comparison found, as it is shown.
  add column difference jsonb,
  -- The decisions that are under way: a keeper that follows writes what is left of them, and no other.
  add column begun uuid[];
