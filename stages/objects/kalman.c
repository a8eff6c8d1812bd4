#include "stages/objects/kalman.h"

void mr_kalman_begin(mr_kalman *f, double place, double place_std, double speed_std) {
    *f = (mr_kalman){.place = place, .place_var = place_std * place_std, .speed_var = speed_std * speed_std};
}

void mr_kalman_predict(mr_kalman *f, double steps, double place_std, double speed_std) {
    f->place += steps * f->speed;
    f->place_var += steps * (2 * f->covariance + steps * f->speed_var) + steps * place_std * place_std;
    f->covariance += steps * f->speed_var;
    f->speed_var += steps * speed_std * speed_std;
}

void mr_kalman_update(mr_kalman *f, double place, double place_std) {
    const double sum = f->place_var + place_std * place_std, off = place - f->place;
    const double gain = f->place_var / sum, speed_gain = f->covariance / sum;
    f->place += gain * off;
    f->speed += speed_gain * off;
    f->speed_var -= speed_gain * f->covariance;
    f->covariance -= gain * f->covariance;
    f->place_var -= gain * f->place_var;
}
