-- What a job had come to when its process died: the process that follows goes on from there, and counts what both did.
alter table jobs add column checkpoint jsonb;
