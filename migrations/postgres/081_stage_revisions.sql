-- Which revision of a stage decided what, by the offsets of its input (law R12): a row where a partition went over to another revision. What lies before
-- `began` was decided by an earlier one. Rows are never changed; the newest of a partition is the one in force.
create table stage_revisions (
  revision_id bigint generated always as identity primary key,
  stage text not null,
  topic text not null,
  partition int not null check (partition >= 0),
  revision int not null check (revision > 0),
  began bigint not null check (began >= 0),
  instance text not null,
  since timestamptz(3) not null default clock_timestamp()
);
create index stage_revisions_newest on stage_revisions (stage, topic, partition, revision_id desc);

grant select, insert on stage_revisions to tributary_app;
