/* What is gone without anybody on the other side knowing: what a live cut has dropped for want of a taker or when a
 * connection was lost, and what a process knew that another one has come in place of. Joins behind may wait for it, and
 * so may the whole pipeline. Of each source it is remembered how far it is settled; and where that may be news over
 * there, one mark says so (engine/flow/gone.h), behind all that is queued. It takes no credit, as no mark does, and is
 * owed until somebody is there. */
#include "engine/flow/gone.h"
#include "engine/transport/session/sender.h"

void sender_note_gone(mr_sender *sender, const mr_identity *gone) {
    lane *l = &sender->lanes[gone->source];
    if (!sender->params.tells_lost || mr_identity_is_away(gone) ||
        (l->known && mr_identity_compare(gone, &l->gone) <= 0))
        return;
    l->gone = mr_identity_lost(*gone);
    l->known = true;
}

void sender_owe(mr_sender *sender, uint32_t source) {
    lane *l = &sender->lanes[source];
    if (!sender->params.tells_lost || l->owes || !(l->known || l->away))
        return;
    l->owes = true;
    sender->owing++;
}

void mr_sender_miss(mr_sender *sender, const mr_identity *gone) {
    sender_note_gone(sender, gone);
    sender_owe(sender, gone->source);
}

void sender_owe_all(mr_sender *sender) {
    for (uint32_t source = 0; source < sender->params.self.source_count; source++)
        sender_owe(sender, source);
}

/* Where the source has ended the end says more. */
static bool may_pay(const mr_sender *sender, uint32_t source) {
    enum { MARKS = 2 };
    return sender->lanes[source].owes && !sender->lanes[source].ended && sender_anybody_open(sender, source) &&
           sender->next - sender->base + MARKS <= sender->room;
}

void sender_pay(mr_sender *sender) {
    for (uint32_t source = 0; sender->owing && source < sender->params.self.source_count; source++) {
        lane *l = &sender->lanes[source];
        if (!may_pay(sender, source))
            continue;
        const mr_cut_item lost = {.kind = MR_CUT_GONE, .identity = l->gone},
                          away = {.kind = MR_CUT_GONE, .identity = mr_identity_away(source)};
        if (l->known)
            sender_enqueue(sender, &lost);
        if (l->away)
            sender_enqueue(sender, &away);
        l->owes = false;
        sender->owing--;
    }
}
