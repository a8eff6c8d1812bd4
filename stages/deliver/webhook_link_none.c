#include "stages/deliver/webhook_link.h"

int mr_webhook_link_check(const mr_webhook_params *params) {
    (void)params;
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this millrace was built without libcurl: install libcurl4-gnutls-dev and build it again");
}

int mr_webhook_link_create(mr_webhook_link **link, const mr_webhook_params *params) {
    (void)link;
    return mr_webhook_link_check(params);
}

const mr_service_type mr_webhook_service = {0};
