-- Of the events that are stored already. A run that died here does it again: equal rows become one.
insert into device_events
select client_id, did, ts, event_id, t = 'click' as is_click
from events
where ts > now() - interval 90 day and (t = 'click' or custom_name = 'identity_unlinked'
  or (t not in ('page_view', 'view_product', 'add_to_cart', 'begin_checkout', 'form_start')
    and multiSearchAny(props, ['"email":', '"user_id":', '"login_id":'])))
