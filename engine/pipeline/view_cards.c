/* A view's cards, and the models known by name. */
#include <pthread.h>

#include "engine/pipeline/view.h"

const mr_view_card *mr_view_make_card(mr_arena *arena, const mr_card *card) {
    mr_view_card *made = mr_arena_alloc(arena, sizeof *made);
    mr_view_codec *codecs = mr_arena_array(arena, MR_CARD_CODECS, sizeof *codecs);
    if (!made || !codecs)
        return NULL;
    for (int i = 0; i < MR_CARD_CODECS; i++)
        codecs[i] = (mr_view_codec){mr_card_codec_name((mr_card_codec)i), card->decode_fps[i]};
    *made = (mr_view_card){
        .name = card->name,
        .title = card->title,
        .source = card->source,
        .measured = card->measured,
        .memory_bytes = card->memory_bytes,
        .memory_rate = card->memory_rate,
        .upload_rate = card->upload_rate,
        .download_rate = card->download_rate,
        .f32_rate = card->f32_rate,
        .f16_rate = card->f16_rate,
        .launch_ns = card->launch_ns,
        .copy_engines = card->copy_engines,
        .kernels = card->kernels,
        .decoders = card->decoders,
        .codec_count = MR_CARD_CODECS,
        .codecs = codecs,
    };
    return made;
}

/* ---- models ---------------------------------------------------------------------------------------------------- */

enum { MOST_MODELS = 64 };
/* Never freed: they live as long as the process. */
static const mr_view_card *models[MOST_MODELS + 1];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_models(void) {
    static mr_arena arena;
    for (size_t i = 0; i < MOST_MODELS && mr_card_name(i); i++) {
        mr_card *card = mr_arena_alloc(&arena, sizeof *card);
        if (!card || !mr_card_find(mr_card_name(i), card) || !(models[i] = mr_view_make_card(&arena, card)))
            return;
    }
}

const mr_view_card *mr_view_model(size_t index) {
    pthread_once(&made, make_models);
    return index < MOST_MODELS ? models[index] : NULL;
}
