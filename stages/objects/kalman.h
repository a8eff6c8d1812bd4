/* One coordinate of a box and its velocity: a Kalman filter with two states (Kalman, 1960). The noise of a box's
 * coordinates is independent, so four of these follow a box exactly as one filter with eight states does. */
#pragma once

typedef struct mr_kalman {
    double place, speed;                     /* px, px per step */
    double place_var, speed_var, covariance;
} mr_kalman;

/* `place_std`, `speed_std`: standard deviations. */
void mr_kalman_begin(mr_kalman *filter, double place, double place_std, double speed_std);
/* Moves on by `steps`; the standard deviations are those of the noise of one step. */
void mr_kalman_predict(mr_kalman *filter, double steps, double place_std, double speed_std);
void mr_kalman_update(mr_kalman *filter, double place, double place_std);
