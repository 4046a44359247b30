-- One transaction is one change, whatever it saves. Its row is there from the first save on, so that the transaction can read what it saved;
-- its moment is set last. Once it is set, it stays: decisions about money are read by it.
alter table reference_changes add column is_stamped boolean not null default true;
grant update (recorded_at, is_stamped) on reference_changes to tributary_app;

create function keep_stamp() returns trigger language plpgsql as $$
begin
  if old.is_stamped or not new.is_stamped then
    raise exception 'change % has its moment already', old.change_id using errcode = 'check_violation';
  end if;
  return new;
end $$;
create trigger keep_stamp before update on reference_changes for each row execute function keep_stamp();

-- No reader may meet a change without its moment.
create function expect_stamp() returns trigger language plpgsql as $$
begin
  if not (select is_stamped from reference_changes where change_id = new.change_id) then
    raise exception 'change % has no moment yet', new.change_id using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger expect_stamp after insert on reference_changes deferrable initially deferred
  for each row execute function expect_stamp();
