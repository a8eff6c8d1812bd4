#include "stages/deliver/mqtt_link.h"

int mr_mqtt_link_check(const mr_mqtt_params *params) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this millrace was built without libmosquitto: install libmosquitto-dev and build it again");
}

int mr_mqtt_link_create(mr_mqtt_link **link, const mr_mqtt_params *params) {
    return mr_mqtt_link_check(params);
}

const mr_service_type mr_mqtt_service = {0};
