-- Reprocessing over the platform API: a keeper compares a window and keeps what differs, and writes it when that is asked for.
alter table moves drop constraint moves_move_check;
alter table moves add constraint moves_move_check check (move in ('rewind', 'relearn', 'replay', 'reprocess'));
alter table moves
  -- What a comparison found, as it is shown.
  add column difference jsonb,
  -- Decisions are under way: a keeper that follows goes on, whatever is left to write.
  add column is_begun boolean not null default false;
