-- Whether payloads of a generic source come without a signature, and whether such ones may carry money. Null: nobody has said so; its payloads are taken
-- as before, and `tributary doctor` asks for the choice.
alter table sources
  add column unsigned boolean check (unsigned is not true or kind = 'generic'),
  add column unsigned_money boolean not null default false check (not unsigned_money or unsigned is true);
