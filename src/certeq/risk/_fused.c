/* Slopes of a vector of losses and their sums in one pass, and the threshold of a short vector in one call.

   NumPy writes an array for every operation and takes a microsecond for every call; a batch of 64 losses, or one
   iteration of a first-order method, is nothing but such calls. Here are the few curves that a slope is made of, each
   written once. Whatever else a utility may be is NumPy's: see _compiled.py, which also does without this file.

   A curve is stated relative to the anchor x0, where the slope is 1: y = x - t - x0.

       EXPONENTIAL  exp(a y)                                        a: rate
       LOGISTIC     b / (1 + (b - 1) exp(-a y))                     a: rate,   b: greatest slope
       ARCTANGENT   b / (1 + min(y/a - sqrt(b - 1), 0)^2)           a: width,  b: greatest slope
       POWER        max(1 + y/a, 0)^b                               a: width,  b: degree
       LINEAR       1 + a y                                         a: curvature
*/

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One build serves every x86-64: the wider instructions are chosen when the module is loaded. */
#if defined(__GNUC__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define WIDE __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define WIDE
#endif
#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline)) /* also into a function for other instructions */
#define SUM_OF(...) _Pragma(SIMD_TEXT(omp simd reduction(+ : __VA_ARGS__)))
#define RANGE_AND_SUM_OF(...) \
    _Pragma(SIMD_TEXT(omp simd reduction(min : least) reduction(max : most) reduction(+ : __VA_ARGS__)))
#define SIMD_TEXT(...) #__VA_ARGS__
#else /* other compilers add one number after the other */
#define INLINE static inline
#define SUM_OF(...)
#define RANGE_AND_SUM_OF(...)
#endif

enum { EXPONENTIAL, LOGISTIC, ARCTANGENT, POWER, LINEAR, CURVES };

typedef struct {
    int kind;
    double a, b;
} Curve;

typedef struct {
    double slope, curvature;
} Sums;

/* -- the exponential, without a branch so that it is taken of several numbers at once ------------------------------ */

#define LEAST (-708.0)
#define MOST 709.0

/* exp(x) = 2^k exp(r) with abs(r) <= ln(2)/2; Taylor's polynomial of degree 13 leaves 4e-18. Below -708 it is 0,
   above 709 it stays what it is there. */
INLINE double exponential(double x)
{
    const double shift = 0x1.8p52; /* adding it rounds to a whole number, whose bits are the lowest of the sum */
    double at = x < LEAST ? LEAST : x;
    at = at > MOST ? MOST : at;
    double rounded = at * 0x1.71547652b82fep0 + shift;
    int64_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    double k = rounded - shift;
    double r = (at - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45;
    /* In pairs, so that no multiplication waits long for another. */
    double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    double low = (1.0 + r) + (1.0 / 2.0 + r * (1.0 / 6.0)) * r2;
    double middle = (1.0 / 24.0 + r * (1.0 / 120.0)) + (1.0 / 720.0 + r * (1.0 / 5040.0)) * r2;
    double high = (1.0 / 40320.0 + r * (1.0 / 362880.0)) + (1.0 / 3628800.0 + r * (1.0 / 39916800.0)) * r2;
    high += (1.0 / 479001600.0 + r * (1.0 / 6227020800.0)) * r4;
    double p = low + middle * r4 + high * r8;
    bits = (int64_t)((uint64_t)(bits + 1023) << 52);
    double power;
    memcpy(&power, &bits, sizeof power);
    return x < LEAST ? 0.0 : p * power;
}

/* -- slope q and curvature c of each curve at y -------------------------------------------------------------------- */

/* y - y is 0, and NaN where y is not finite, which a comparison would hide. Of an exponential and a logistic slope NaN
   comes out as NaN, while infinite losses have their limits. */

#define AT_EXPONENTIAL                                                                                                 \
    double q = exponential(a * y), c = a * q;

#define AT_LOGISTIC                                                                                                    \
    double x = odds * exponential(-a * y);                                                                             \
    x = x > 1e300 ? 1e300 : x;                                                                                         \
    double q = b / (1.0 + x), c = a * q * (x * q * one_over_b);

#define AT_ARCTANGENT                                                                                                  \
    double v = y * one_over_a - root;                                                                                  \
    v = v < 0.0 ? v : 0.0;                                                                                             \
    double q = b / (1.0 + v * v) + (y - y), c = -2.0 * v * q * q * one_over_b * one_over_a;

#define AT_POWER(LOWER)                                                                                                \
    double v = 1.0 + y * one_over_a;                                                                                   \
    v = v > 0.0 ? v : 0.0;                                                                                             \
    double lower = LOWER, q = lower * v + (y - y), c = b * lower * one_over_a;

#define AT_LINEAR                                                                                                      \
    double q = 1.0 + a * y, c = a;

#define LOOP(...)                                                                                                      \
    SUM_OF(total, curvature) for (Py_ssize_t i = 0; i < n; i++)                                                        \
    {                                                                                                                  \
        double y = (z[i] - center) - s;                                                                                \
        __VA_ARGS__                                                                                                    \
    }

/* Sums of slopes and curvatures of (z - center) - s, weighted or not. Slopes are written into out, if that is given,
   and where there are no weights curvatures into the last array. */
#define PASS(NAME, AT)                                                                                                 \
    WIDE static Sums NAME(double a, double b, const double *z, const double *w, Py_ssize_t n, double center, double s, \
                          double *out, double *curvatures)                                                             \
    {                                                                                                                  \
        const double odds = b - 1.0, one_over_a = 1.0 / a, one_over_b = 1.0 / b, root = sqrt(odds > 0.0 ? odds : 0.0); \
        (void)odds, (void)one_over_a, (void)one_over_b, (void)root;                                                    \
        double total = 0.0, curvature = 0.0;                                                                           \
        if (out == NULL && w != NULL)                                                                                  \
            LOOP(AT total += w[i] * q; curvature += w[i] * c;)                                                         \
        else if (out == NULL)                                                                                          \
            LOOP(AT total += q; curvature += c;)                                                                       \
        else if (w != NULL)                                                                                            \
            LOOP(AT out[i] = q; total += w[i] * q; curvature += w[i] * c;)                                             \
        else if (curvatures != NULL)                                                                                   \
            LOOP(AT out[i] = q; curvatures[i] = c; total += q; curvature += c;)                                        \
        else                                                                                                           \
            LOOP(AT out[i] = q; total += q; curvature += c;)                                                           \
        return (Sums){total, curvature};                                                                               \
    }

PASS(pass_exponential, AT_EXPONENTIAL)
PASS(pass_logistic, AT_LOGISTIC)
PASS(pass_arctangent, AT_ARCTANGENT)
PASS(pass_power_1, AT_POWER(v > 0.0 ? 1.0 : 0.0))
PASS(pass_power_1_half, AT_POWER(sqrt(v)))
PASS(pass_power_2, AT_POWER(v))
PASS(pass_power_3, AT_POWER(v *v))
PASS(pass_power_any, AT_POWER(v > 0.0 ? pow(v, b - 1.0) : 0.0))
PASS(pass_linear, AT_LINEAR)

static Sums pass(Curve u, const double *z, const double *w, Py_ssize_t n, double center, double s, double *out,
                 double *curvatures)
{
    switch (u.kind) {
    case EXPONENTIAL:
        return pass_exponential(u.a, u.b, z, w, n, center, s, out, curvatures);
    case LOGISTIC:
        return pass_logistic(u.a, u.b, z, w, n, center, s, out, curvatures);
    case ARCTANGENT:
        return pass_arctangent(u.a, u.b, z, w, n, center, s, out, curvatures);
    case LINEAR:
        return pass_linear(u.a, u.b, z, w, n, center, s, out, curvatures);
    default:
        if (u.b == 1.0)
            return pass_power_1(u.a, u.b, z, w, n, center, s, out, curvatures);
        if (u.b == 1.5)
            return pass_power_1_half(u.a, u.b, z, w, n, center, s, out, curvatures);
        if (u.b == 2.0)
            return pass_power_2(u.a, u.b, z, w, n, center, s, out, curvatures);
        if (u.b == 3.0)
            return pass_power_3(u.a, u.b, z, w, n, center, s, out, curvatures);
        return pass_power_any(u.a, u.b, z, w, n, center, s, out, curvatures);
    }
}

/* -- u(x0 + y) - u(x0), the integral of the slope from 0 to y, summed ---------------------------------------------- */

/* total += what comes of one loss, times its weight if it has one: a loop for each, so that neither has a branch. */
#define ADD_UP(ONE, ...)                                                                                               \
    if (w == NULL)                                                                                                     \
        SUM_OF(total) for (Py_ssize_t i = 0; i < n; i++)                                                               \
        {                                                                                                              \
            double y = (z[i] - center) - s;                                                                            \
            __VA_ARGS__                                                                                                \
            total += ONE;                                                                                              \
        }                                                                                                              \
    else                                                                                                               \
        SUM_OF(total) for (Py_ssize_t i = 0; i < n; i++)                                                               \
        {                                                                                                              \
            double y = (z[i] - center) - s;                                                                            \
            __VA_ARGS__                                                                                                \
            total += w[i] * (ONE);                                                                                     \
        }

/* Logistic: b/a times the sum of log(g) and of positive parts of a y. A product of eight g, each between 1/b and 1,
   takes one logarithm, where roundings of g are small beside the losses; weights leave no such choice. g is an array to
   work in, and low the least loss. */
WIDE static double risen_logistic(double a, double b, const double *z, const double *w, Py_ssize_t n, double center,
                                  double s, double low, double *g)
{
    double straight = 0.0, curved = 0.0, total = 0.0;
    if (w != NULL || b / a > 50.0 * fabs(low)) {
        ADD_UP(v < 700.0 ? log1p(expm1(v) / b) : v + log1p(expm1(-v) * (1.0 - 1.0 / b)), double v = a * y;)
        return b / a * total;
    }
    SUM_OF(straight) for (Py_ssize_t i = 0; i < n; i++)
    {
        double v = a * ((z[i] - center) - s), share = v > 0.0 ? 1.0 - 1.0 / b : 1.0 / b;
        g[i] = 1.0 + share * (exponential(v > 0.0 ? -v : v) - 1.0);
        straight += v > 0.0 ? v : 0.0;
    }
    for (Py_ssize_t i = 0; i < n; i += 8) {
        double product = 1.0;
        for (Py_ssize_t k = i; k < i + 8 && k < n; k++)
            product *= g[k];
        curved += log(product);
    }
    return b / a * (straight + curved);
}

/* atan(x) for x >= 0, without a branch: of x, (x - 1)/(x + 1) or -1/x, whichever is small, a rational function (Cephes);
   pi/4 or pi/2 is added, in two parts. */
INLINE double arctangent(double x)
{
    double top = x > 2.414213562373095 ? -1.0 : x > 0.66 ? x - 1.0 : x;
    double below = x > 2.414213562373095 ? x : x > 0.66 ? x + 1.0 : 1.0;
    double start = x > 2.414213562373095 ? 0x1.921fb54442d18p0 : x > 0.66 ? 0x1.921fb54442d18p-1 : 0.0;
    double r = top / below, r2 = r * r;
    double p = -8.750608600031904122785e-1;
    p = p * r2 - 1.615753718733365076637e1;
    p = p * r2 - 7.500855792314704667340e1;
    p = p * r2 - 1.228866684490136173410e2;
    p = p * r2 - 6.485021904942025371773e1;
    double q = r2 + 2.485846490142306297962e1;
    q = q * r2 + 1.650270098316988542046e2;
    q = q * r2 + 4.328810604912902668951e2;
    q = q * r2 + 4.853903996359136964868e2;
    q = q * r2 + 1.945506571482613964425e2;
    return start + (r * (r2 * p / q) + (start * 3.8981718325193755e-17 + r));
}

WIDE static double risen_arctangent(double a, double b, const double *z, const double *w, Py_ssize_t n, double center,
                                    double s, double low)
{
    const double root = sqrt(b - 1.0), whole = atan(root), one_over_a = 1.0 / a;
    double total = 0.0;
    if (a * b > 50.0 * fabs(low)) { /* losses close together: two arctangents would cancel, in one they do not */
        ADD_UP(v >= 0.0 ? v + whole : atan2(y / a, 1.0 - v * root), double v = y / a - root;)
        return a * b * total;
    }
    ADD_UP((v > 0.0 ? v : -angle) + whole, double v = y * one_over_a - root; double angle = arctangent(v < 0.0 ? -v : 0.0);)
    return a * b * total;
}

WIDE static double risen_power(double a, double b, const double *z, const double *w, Py_ssize_t n, double center,
                               double s, double low, const double *q)
{
    double total = 0.0;
    /* v**(b + 1) - 1 in factors, which do not cancel where losses are close together */
    if (b == 1.0) {
        ADD_UP(v * (2.0 + v), double v = y / a; v = v > -1.0 ? v : -1.0;)
    } else if (b == 3.0) {
        ADD_UP(v * (2.0 + v), double v = y / a; v = v > -1.0 ? v : -1.0; v = v * (2.0 + v);)
    } else if (fmax(-s, s - low) < 0.02 * a) {
        ADD_UP(expm1((b + 1.0) * log1p(y / a)), )
    } else {
        ADD_UP(v > 0.0 ? q[i] * v - 1.0 : -1.0, double v = 1.0 + y / a;)
    }
    return a / (b + 1.0) * total;
}

/* Of losses at z - center, none below low; q are the slopes there, and work is an array of as many numbers. */
static double risen(Curve u, const double *z, const double *w, Py_ssize_t n, double center, double s, double low,
                    const double *q, double *work)
{
    if (u.kind == LOGISTIC)
        return risen_logistic(u.a, u.b, z, w, n, center, s, low, work);
    if (u.kind == ARCTANGENT)
        return risen_arctangent(u.a, u.b, z, w, n, center, s, low);
    return risen_power(u.a, u.b, z, w, n, center, s, low, q);
}

#define CHUNK 1024 /* losses whose slopes fit the first cache */

/* The same without slopes at hand, and nothing written. */
static double risen_alone(Curve u, const double *z, const double *w, Py_ssize_t n, double center, double s, double low)
{
    double q[CHUNK], work[CHUNK], total = 0.0;
    for (Py_ssize_t i = 0; i < n; i += CHUNK) {
        Py_ssize_t m = n - i < CHUNK ? n - i : CHUNK;
        const double *part = w == NULL ? NULL : w + i;
        if (u.kind == POWER && u.b != 1.0 && u.b != 3.0)
            pass(u, z + i, part, m, center, s, q, NULL);
        total += risen(u, z + i, part, m, center, s, low, q, work);
    }
    return total;
}

/* -- the threshold of a vector ------------------------------------------------------------------------------------- */

typedef struct {
    double value;     /* OCE less that of a constant loss of 0 */
    double threshold; /* plus the anchor */
    double total;     /* q over this is the tilt, or times the weight over this */
    double stiff;     /* the mean curvature times the distance from the center: what its rounding does to the slope */
} Answer;

WIDE static double sum(const double *z, const double *w, Py_ssize_t n, double center, double s)
{
    double total = 0.0;
    ADD_UP(y, )
    return total;
}

/* q may be missing in what follows: then only value and threshold are wanted. */

static Answer log_mean_exp(Curve u, const double *z, const double *w, Py_ssize_t n, double mass, double center,
                           double *q)
{
    double total = pass(u, z, w, n, center, 0.0, q, NULL).slope, certain = log(total / mass) / u.a;
    if (total > 0.9 * mass) { /* nearly constant losses: 1 + a small mean would round the answer away */
        double less = 0.0;
        for (Py_ssize_t i = 0; i < n; i++)
            less += (w == NULL ? 1.0 : w[i]) * expm1(u.a * (z[i] - center));
        certain = log1p(less / mass) / u.a;
    }
    return (Answer){certain, certain, total, 0.0};
}

WIDE static double sum_of_squares(const double *z, const double *w, Py_ssize_t n, double center, double middle)
{
    double total = 0.0, s = middle;
    ADD_UP(y * y, )
    return total;
}

static Answer mean_and_variance(Curve u, const double *z, const double *w, Py_ssize_t n, double mass, double center,
                                double *q)
{
    double middle = sum(z, w, n, center, 0.0) / mass;
    middle += sum(z, w, n, center, middle) / mass; /* what the first sum rounded away would be multiplied by the curvature */
    for (Py_ssize_t i = 0; q != NULL && i < n; i++)
        q[i] = 1.0 + u.a * ((z[i] - center) - middle);
    double square = sum_of_squares(z, w, n, center, middle);
    return (Answer){middle + 0.5 * u.a * square / mass, middle, mass, 0.0};
}

/* A step of Newton's method on a function of the mean slope m that is nearly a straight line in s: the p-th root where
   the slope is a power p, the log-odds where it is bounded (a single sigmoid would be hit at once). NaN where m is out
   of reach or the curvatures vanish. */
static double newton_step(Curve u, double m, double curvature)
{
    if (!(m > 0.0 && curvature > 0.0))
        return NAN;
    if (u.kind == POWER)
        return u.b * m * (u.b == 1.0 ? 1.0 - 1.0 / m : 1.0 - pow(m, -1.0 / u.b)) / curvature;
    return m < u.b ? log(m * (u.b - 1.0) / (u.b - m)) * m * (u.b - m) / (u.b * curvature) : NAN;
}

/* Slopes where the mean passes 1 between two neighboring floats: those at both, mixed so that the mean is 1, which it
   returns. Slopes at either alone may have any mean where the curve is steeper than floats are dense. */
static double between(Curve u, const double *z, const double *w, Py_ssize_t n, double mass, double low, double high,
                      double *q, double *work)
{
    double above = pass(u, z, w, n, 0.0, low, work, NULL).slope / mass;
    double below = pass(u, z, w, n, 0.0, high, q, NULL).slope / mass;
    if (!(above > 1.0 && below < 1.0))
        return below;
    double share = (1.0 - below) / (above - below);
    for (Py_ssize_t i = 0; i < n; i++)
        q[i] += share * (work[i] - q[i]);
    return 1.0;
}

/* The threshold in [low, high], from s. A step out of the bracket, or a residual that does not halve, is replaced by a
   bisection. Returns 0 where it does not converge. */
static int search(Curve u, const double *z, const double *w, Py_ssize_t n, double mass, double center, double low,
                  double high, double s, double *q, double *work, Answer *found)
{
    const double tolerance = 1e-14, least = low;
    double last = INFINITY, m = 1.0, stiff = INFINITY;
    s = s < low ? low : s > high ? high : s;
    for (int trial = 0;; trial++) {
        Sums sums = pass(u, z, w, n, center, s, q, NULL);
        m = sums.slope / mass;
        double error = fabs(m - 1.0);
        stiff = fabs(s) * sums.curvature / mass;
        if (error <= tolerance)
            break;
        if (m > 1.0)
            low = s;
        else
            high = s;
        double middle = 0.5 * (low + high);
        if (error > 0.5 * last && error <= 64 * tolerance)
            break; /* sums of rounded slopes wobble */
        if (!(low < middle && middle < high)) {
            s = high;
            stiff = INFINITY;
            m = q == NULL ? 1.0 : between(u, z, w, n, mass, low, high, q, work);
            break;
        }
        if (trial == 4000 || isnan(m))
            return 0;
        double next = s + newton_step(u, m, sums.curvature / mass);
        if (low < next && next < high && !(error > 0.5 * last)) {
            s = next;
            last = error;
        } else {
            s = middle;
            last = INFINITY;
        }
    }
    double value = q == NULL ? risen_alone(u, z, w, n, center, s, least)
                             : risen(u, z, w, n, center, s, least, q, work);
    *found = (Answer){s + value / mass, s, m > 0.0 ? m * mass : mass, stiff};
    return 1;
}

/* Slopes of a logistic curve after s has moved: the odds q/(b - q) change by a factor, and no exponential is taken. */
WIDE static Sums moved_logistic(double a, double b, Py_ssize_t n, double by, double *q, double *curvatures)
{
    const double k = exponential(a * by);
    double total = 0.0, curvature = 0.0;
    SUM_OF(total, curvature) for (Py_ssize_t i = 0; i < n; i++)
    {
        double rest = (b - q[i]) * k, share = 1.0 / (q[i] + rest);
        double now = b * q[i] * share, c = a * now * rest * share;
        q[i] = now;
        curvatures[i] = c;
        total += now;
        curvature += c;
    }
    return (Sums){total, curvature};
}

/* The threshold from an s nearby: a few steps of Newton's method, to abs(mean slope - 1) <= 1e-12. On return s is a
   step further than the slopes. Returns the passes it took, or 0 where they did not do. */
static int newton_from(Curve u, const double *z, Py_ssize_t n, double *s, double *q, double *curvatures, Sums *sums)
{
    double step = 0.0, last = INFINITY;
    for (int passes = 1; passes <= 8; passes++) {
        if (passes > 1 && u.kind == LOGISTIC && fabs(u.a * step) < 1.0)
            *sums = moved_logistic(u.a, u.b, n, step, q, curvatures);
        else
            *sums = pass(u, z, NULL, n, 0.0, *s, q, curvatures);
        double m = sums->slope / (double)n, error = fabs(m - 1.0);
        step = newton_step(u, m, sums->curvature / (double)n);
        if (!isfinite(step) || error > last)
            return 0;
        double next = *s + step;
        if (error <= 1e-12 || next == *s) {
            *s = next;
            return passes;
        }
        *s = next;
        last = error;
    }
    return 0;
}

/* -- curves, straight lines and kinks together --------------------------------------------------------------------- */

typedef struct {
    double weight, kind, a, b, offset; /* weight times the slope of a curve at z - (t + offset) */
} Part;

typedef struct {
    double at, jump;
} Kink;

typedef struct {
    const Part *parts;
    const Kink *kinks;
    Py_ssize_t curves, count;
    double level; /* the slope of the straight lines left of all kinks */
    const double *z, *w;
    Py_ssize_t n;
    double mass;
} Mixed;

/* The mass of losses right of a kink, by the rule of breakpoints. */
WIDE static double right_of(const double *z, const double *w, Py_ssize_t n, double at, double t)
{
    double total = 0.0;
    if (w == NULL) {
        SUM_OF(total) for (Py_ssize_t i = 0; i < n; i++) total += z[i] - at > t ? 1.0 : 0.0;
    } else {
        SUM_OF(total) for (Py_ssize_t i = 0; i < n; i++) total += z[i] - at > t ? w[i] : 0.0;
    }
    return total;
}

/* The mean of left slopes less 1, and the mean curvature. */
static double excess(const Mixed *u, double t, double *curvature)
{
    double total = u->level * u->mass, curved = 0.0;
    for (Py_ssize_t k = 0; k < u->curves; k++) {
        const Part *part = &u->parts[k];
        Sums sums = pass((Curve){(int)part->kind, part->a, part->b}, u->z, u->w, u->n, 0.0, t + part->offset, NULL,
                         NULL);
        total += part->weight * sums.slope;
        curved += part->weight * sums.curvature;
    }
    for (Py_ssize_t k = 0; k < u->count; k++)
        total += u->kinks[k].jump * right_of(u->z, u->w, u->n, u->kinks[k].at, t);
    if (curvature != NULL)
        *curvature = curved / u->mass;
    return total / u->mass - 1.0;
}

#define KEPT 1024 /* breakpoints that are looked at one by one */

typedef struct {
    double at, fall; /* what the mean slope falls by up to this one and with it */
} Breakpoint;

static int by_location(const void *a, const void *b)
{
    double x = ((const Breakpoint *)a)->at, y = ((const Breakpoint *)b)->at;
    return (x > y) - (x < y);
}

/* Breakpoints in rising order, each once; returns how many there are then. */
static Py_ssize_t in_order(Breakpoint *kept, Py_ssize_t count)
{
    Py_ssize_t last = 0;
    qsort(kept, (size_t)count, sizeof(Breakpoint), by_location);
    for (Py_ssize_t j = 1; j < count; j++)
        if (kept[j].at == kept[last].at)
            kept[last].fall += kept[j].fall;
        else
            kept[++last] = kept[j];
    return count > 0 ? last + 1 : 0;
}

/* The breakpoints in (low, high] in rising order, each once; -1 where there are too many. */
static Py_ssize_t breakpoints(const Mixed *u, double low, double high, Breakpoint *kept)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t k = 0; k < u->count; k++)
        for (Py_ssize_t i = 0; i < u->n; i++) {
            double at = u->z[i] - u->kinks[k].at;
            if (!(at > low && at <= high))
                continue;
            double mass = u->w == NULL ? 1.0 : u->w[i];
            if (!(mass > 0.0))
                continue;
            if (count == KEPT && (count = in_order(kept, count)) > KEPT / 2)
                return -1;
            kept[count++] = (Breakpoint){at, u->kinks[k].jump * mass / u->mass};
        }
    count = in_order(kept, count);
    for (Py_ssize_t j = 1; j < count; j++)
        kept[j].fall += kept[j - 1].fall;
    return count;
}

typedef struct {
    double t, excess; /* infinite where it is not known */
} Trial;

static double middle_of(Trial below, Trial above) { return 0.5 * below.t + 0.5 * above.t; }

#define STEEP 4.0 /* a ratio of mean slopes from which on their logarithm is closer to a straight line than they are */

static int is_steep(Trial below, Trial above)
{
    return above.excess > -1.0 && 1.0 + below.excess > STEEP * (1.0 + above.excess) && below.excess < INFINITY;
}

/* Where the line through both trials, or through the logarithms of their slopes, passes 1; else the middle. */
static double on_a_line(Trial below, Trial above)
{
    double rise = below.excess - above.excess, share = below.excess / rise;
    if (is_steep(below, above))
        share = log1p(below.excess) / (log1p(below.excess) - log1p(above.excess));
    double t = rise < INFINITY ? below.t + share * (above.t - below.t) : NAN;
    return below.t < t && t < above.t ? t : middle_of(below, above);
}

/* Trials closer and closer around t*, until few breakpoints are left between them; returns how many. A straight line
   through both is tried, and bisection where that gains little. */
static Py_ssize_t few_breakpoints(const Mixed *u, double guess, double width, double noise, Trial *below, Trial *above,
                                  Breakpoint *kept)
{
    double t = guess;
    for (int trial = 0; trial < 6 && below->t < t && t < above->t; trial++) { /* strides from the guess that grow */
        double found = excess(u, t, NULL) - noise;
        if (found > 0.0)
            *below = (Trial){t, found}, t += width;
        else
            *above = (Trial){t, found}, t -= width;
        if (below->excess < INFINITY && above->excess > -INFINITY)
            break;
        width *= 8.0;
    }
    for (int trial = 0;; trial++) {
        Py_ssize_t count = breakpoints(u, below->t, above->t, kept);
        if (count >= 0)
            return count;
        for (int step = 0; step < 3; step++) {
            t = step < 2 ? on_a_line(*below, *above) : middle_of(*below, *above);
            if (!(below->t < t && t < above->t))
                break;
            double found = excess(u, t, NULL) - noise;
            if (isnan(found) || trial == 1000)
                return -1;
            *(found > 0.0 ? below : above) = (Trial){t, found};
        }
    }
}

/* Between trials without a breakpoint in between: the smooth part alone. Returns 0 where floats are not dense enough. */
static int smooth_root(const Mixed *u, Trial below, Trial above, double *t)
{
    const double tolerance = 1e-14;
    double last = INFINITY;
    *t = on_a_line(below, above);
    for (int trial = 0; trial < 1000; trial++) {
        double curvature, found = excess(u, *t, &curvature), error = fabs(found);
        if (error <= tolerance || (error > 0.5 * last && error <= 64 * tolerance))
            return 1;
        if (found > 0.0)
            below.t = *t;
        else
            above.t = *t;
        double middle = middle_of(below, above), next = *t + found / curvature;
        if (!(below.t < middle && middle < above.t) || isnan(found))
            return 0;
        int good = below.t < next && next < above.t && !(error > 0.5 * last);
        *t = good ? next : middle;
        last = good ? error : INFINITY;
    }
    return 0;
}

/* The threshold in (low, high], and whether it puts a loss on a kink. Returns 0 where it is not found. */
static int kinked(const Mixed *u, double low, double high, double guess, double width, double *t, int *on_kink)
{
    const double noise = 4.0 * DBL_EPSILON;
    Breakpoint kept[KEPT];
    Trial below = {low, INFINITY}, above = {high, -INFINITY};
    Py_ssize_t count = few_breakpoints(u, guess, width, noise, &below, &above, kept);
    if (count < 0)
        return 0;
    double total = count > 0 ? kept[count - 1].fall : 0.0;
    Py_ssize_t first = 0, last = count;
    if (count > 0 && above.excess > -INFINITY && kept[count - 1].at == above.t)
        last--; /* known already */
    for (int in_a_row = 0; first < last;) { /* as `_narrowed` of _breakpoints.py */
        Py_ssize_t middle = (first + last) / 2;
        double run = above.t - below.t;
        if (abs(in_a_row) < 2 && below.excess - above.excess < INFINITY) {
            double fallen = first > 0 ? kept[first - 1].fall : 0.0;
            double fall = (last < count ? kept[last].fall : total) - fallen;
            double rate = fmin((above.excess - below.excess + fall) / run, 0.0);
            double line = on_a_line(below, above);
            int steep = is_steep(below, above);
            for (middle = first; middle < last - 1; middle++)
                if (steep ? kept[middle].at >= line
                          : below.excess + rate * (kept[middle].at - below.t) - (kept[middle].fall - fallen) <= 0.0)
                    break;
        }
        double found = excess(u, kept[middle].at, NULL) - noise;
        if (isnan(found))
            return 0;
        if (found > 0.0)
            first = middle + 1, below = (Trial){kept[middle].at, found}, in_a_row = in_a_row > 0 ? in_a_row + 1 : 1;
        else
            last = middle, above = (Trial){kept[middle].at, found}, in_a_row = in_a_row < 0 ? in_a_row - 1 : -1;
    }
    *t = above.t;
    *on_kink = last < count && kept[last].at == above.t &&
               above.excess + (kept[last].fall - (last > 0 ? kept[last - 1].fall : 0.0)) >= -2.0 * noise;
    return *on_kink || smooth_root(u, below, above, t);
}

/* q += weight times the slopes of a curve, or a jump where a loss is right of a kink: without a branch. */
WIDE static void add_slopes(double *q, const double *slope, Py_ssize_t n, double weight)
{
    for (Py_ssize_t i = 0; i < n; i++)
        q[i] += weight * slope[i];
}

WIDE static void add_jump(double *q, const double *z, Py_ssize_t n, double at, double t, double jump)
{
    for (Py_ssize_t i = 0; i < n; i++)
        q[i] += z[i] - at > t ? jump : 0.0;
}

/* Slopes at z - t; where t puts losses on a kink, they get the share of its jump that makes the mean 1. Returns it. */
static double mixed_slopes(const Mixed *u, double t, int on_kink, double *q, double *work)
{
    double m = u->level, rise = 0.0;
    for (Py_ssize_t i = 0; i < u->n; i++)
        q[i] = u->level;
    for (Py_ssize_t k = 0; k < u->curves; k++) {
        const Part *part = &u->parts[k];
        Sums sums = pass((Curve){(int)part->kind, part->a, part->b}, u->z, u->w, u->n, 0.0, t + part->offset, work,
                         NULL);
        m += part->weight * sums.slope / u->mass;
        add_slopes(q, work, u->n, part->weight);
    }
    for (Py_ssize_t k = 0; k < u->count; k++) {
        m += u->kinks[k].jump * right_of(u->z, u->w, u->n, u->kinks[k].at, t) / u->mass;
        add_jump(q, u->z, u->n, u->kinks[k].at, t, u->kinks[k].jump);
    }
    if (!on_kink)
        return m;
    for (int round = 0; round < 2; round++) { /* how much all of the jump would add, then the share of it that is due */
        double share = round == 0 || !(rise > 0.0) ? 0.0 : fmin(fmax((1.0 - m) / rise, 0.0), 1.0);
        for (Py_ssize_t k = 0; k < u->count; k++)
            for (Py_ssize_t i = 0; i < u->n; i++)
                if (u->z[i] - u->kinks[k].at == t) {
                    rise += round == 0 ? u->kinks[k].jump * (u->w == NULL ? 1.0 : u->w[i]) / u->mass : 0.0;
                    q[i] += share * u->kinks[k].jump;
                }
    }
    return 1.0;
}

/* -- Python's side ------------------------------------------------------------------------------------------------- */

/* A contiguous buffer of float64, or where it is allowed float32; the caller releases it. */
static int floats(PyObject *object, Py_buffer *view, int writable, int short_too, const char *name)
{
    int flags = PyBUF_ND | PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0)
        return -1;
    const char *format = view->format == NULL ? "B" : view->format;
    int right = strcmp(format, "d") == 0 || (short_too && strcmp(format, "f") == 0);
    if (view->ndim != 1 || !right) {
        PyErr_Format(PyExc_TypeError, "%s must be a vector of float64%s; found %d dimensions of format '%s'.", name,
                     short_too ? " or float32" : "", view->ndim, format);
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

static int curve(PyObject *const *args, Curve *u)
{
    long kind = PyLong_AsLong(args[0]);
    u->a = PyFloat_AsDouble(args[1]);
    u->b = PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred())
        return -1;
    if (kind < 0 || kind >= CURVES) {
        PyErr_Format(PyExc_ValueError, "kind must be one of the %d curves of this module; found %ld.", CURVES, kind);
        return -1;
    }
    u->kind = (int)kind;
    return 0;
}

static int take(Py_ssize_t found, Py_ssize_t wanted, const char *call)
{
    if (found != wanted)
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments; found %zd.", call, wanted, found);
    return found == wanted ? 0 : -1;
}

static int same_size(Py_ssize_t n, Py_ssize_t found, const char *name)
{
    if (n != found)
        PyErr_Format(PyExc_ValueError, "%s must have one entry for each of the %zd losses; found %zd.", name, n, found);
    return n == found ? 0 : -1;
}

/* What slopes() and newton_from() are called with: (kind, a, b, z, s, q, curvatures); the last may be None where that is
   allowed. */
typedef struct {
    Curve u;
    double s;
    Py_buffer z, q, curvatures;
    int with_curvatures;
} Call;

static void end(Call *call)
{
    if (call->with_curvatures)
        PyBuffer_Release(&call->curvatures);
    PyBuffer_Release(&call->q);
    PyBuffer_Release(&call->z);
}

/* Reads the arguments, and holds their buffers until end(); -1 where one is wrong, and nothing is held. */
static int begin(PyObject *const *args, Py_ssize_t count, const char *signature, int may_lack_curvatures, Call *call)
{
    if (take(count, 7, signature) < 0 || curve(args, &call->u) < 0)
        return -1;
    call->s = PyFloat_AsDouble(args[4]);
    call->with_curvatures = !(may_lack_curvatures && args[6] == Py_None);
    if (PyErr_Occurred() || floats(args[3], &call->z, 0, 0, "z") < 0)
        return -1;
    if (floats(args[5], &call->q, 1, 0, "q") < 0) {
        PyBuffer_Release(&call->z);
        return -1;
    }
    if (call->with_curvatures && floats(args[6], &call->curvatures, 1, 0, "curvatures") < 0) {
        call->with_curvatures = 0;
        end(call);
        return -1;
    }
    Py_ssize_t n = call->z.shape[0];
    if (same_size(n, call->q.shape[0], "q") < 0 ||
        (call->with_curvatures && same_size(n, call->curvatures.shape[0], "curvatures") < 0)) {
        end(call);
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(slopes_doc, "slopes(kind, a, b, z, s, q, curvatures, /) -> (sum of slopes, sum of curvatures)\n--\n\n"
                         "Write the slopes at z - s into q, and the curvatures into curvatures unless that is None.");

static PyObject *slopes(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    Sums sums;
    if (begin(args, count, "slopes(kind, a, b, z, s, q, curvatures)", 1, &call) < 0)
        return NULL;
    double *curvatures = call.with_curvatures ? call.curvatures.buf : NULL;
    Py_BEGIN_ALLOW_THREADS sums = pass(call.u, call.z.buf, NULL, call.z.shape[0], 0.0, call.s, call.q.buf, curvatures);
    Py_END_ALLOW_THREADS end(&call);
    return Py_BuildValue("dd", sums.slope, sums.curvature);
}

PyDoc_STRVAR(newton_from_doc,
             "newton_from(kind, a, b, z, s, q, curvatures, /) -> (s, sum of slopes, sum of curvatures) or None\n--\n\n"
             "The threshold plus the anchor from an s nearby; slopes and curvatures are written into q\n"
             "and curvatures. None where a few steps do not do.");

static PyObject *newton_from_guess(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Call call;
    Sums sums;
    int passes;
    if (begin(args, count, "newton_from(kind, a, b, z, s, q, curvatures)", 0, &call) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS passes =
        newton_from(call.u, call.z.buf, call.z.shape[0], &call.s, call.q.buf, call.curvatures.buf, &sums);
    Py_END_ALLOW_THREADS end(&call);
    return passes ? Py_BuildValue("ddd", call.s, sums.slope, sums.curvature) : Py_BuildValue("");
}

static double loss(const Py_buffer *x, Py_ssize_t i)
{
    return x->itemsize == 4 ? (double)((const float *)x->buf)[i] : ((const double *)x->buf)[i];
}

static void put(const Py_buffer *tilt, Py_ssize_t i, double share)
{
    if (tilt->itemsize == 4)
        ((float *)tilt->buf)[i] = (float)share;
    else
        ((double *)tilt->buf)[i] = share;
}

/* The least and the greatest; NaN is returned where one is not finite, else 0. Both may be wrong where one is NaN. */
WIDE static double range_of(const double *x, Py_ssize_t n, double *low, double *high)
{
    double least = INFINITY, most = -INFINITY, spoilt = 0.0;
    RANGE_AND_SUM_OF(spoilt) for (Py_ssize_t i = 0; i < n; i++)
    {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        spoilt += x[i] - x[i];
    }
    *low = least;
    *high = most;
    return spoilt;
}

#define RECENTERINGS 24 /* each gains the digits of a float: enough from one end of the floats to the other */
#define STIFF 256.0 /* a distance of so many widths of u costs 256 roundings of the mean slope */

/* Losses less their greatest into z; returns 0 where one that counts is not finite. One that weighs nothing may lie
   anywhere, and must not overflow anything: it is given the least. */
static int centered(Curve u, const Py_buffer *x, const double *w, double *z, double *low, double *center)
{
    Py_ssize_t n = x->shape[0];
    double least = INFINITY, most = -INFINITY, spoilt = 0.0;
    for (Py_ssize_t i = 0; i < n; i++) {
        double at = loss(x, i);
        z[i] = at;
        if (w == NULL || w[i] > 0.0) {
            least = at < least ? at : least;
            most = at > most ? at : most;
            spoilt += at - at; /* NaN unless it is finite */
        }
    }
    if (isnan(spoilt) || (!isfinite(most - least) && u.kind != EXPONENTIAL))
        return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        z[i] = (w == NULL || w[i] > 0.0 ? z[i] : least) - most;
    *low = least - most;
    *center = most;
    return 1;
}

/* Losses less a new center into z, and the range of those that count. */
static void recentered(const Py_buffer *x, const double *w, double *z, double center, double *low, double *high)
{
    Py_ssize_t n = x->shape[0];
    *low = INFINITY;
    *high = -INFINITY;
    for (Py_ssize_t i = 0; i < n; i++) {
        z[i] = loss(x, i) - center;
        if (w == NULL || w[i] > 0.0) {
            *low = z[i] < *low ? z[i] : *low;
            *high = z[i] > *high ? z[i] : *high;
        }
    }
    for (Py_ssize_t i = 0; w != NULL && i < n; i++)
        z[i] = w[i] > 0.0 ? z[i] : *low;
}

#define PART 512

/* The threshold of some of the losses, less the center: from there all of them take a few steps. NaN if it has none. */
static double start_of_part(Curve u, const double *x, Py_ssize_t n, double center, double low)
{
    double part[PART], total = 0.0;
    for (Py_ssize_t i = 0; i < PART; i++)
        total += part[i] = x[i * (n / PART)];
    Answer found;
    double start = fmin(fmax(total / PART - center, low), 0.0);
    return search(u, part, NULL, PART, PART, center, low, 0.0, start, NULL, NULL, &found) ? found.threshold : NAN;
}

/* Value and threshold alone, of float64 losses without weights, which are read where they are. */
static int valued(Curve u, const double *x, Py_ssize_t n, double *center, Answer *found)
{
    double least, most, mass = (double)n;
    double spoilt = range_of(x, n, &least, &most);
    if (isnan(spoilt) || (!isfinite(most - least) && u.kind != EXPONENTIAL))
        return 0;
    *center = most;
    if (u.kind == EXPONENTIAL)
        *found = log_mean_exp(u, x, NULL, n, mass, most, NULL);
    else if (u.kind == LINEAR)
        *found = mean_and_variance(u, x, NULL, n, mass, most, NULL);
    else {
        double low = least - most, start = n > 8 * PART ? start_of_part(u, x, n, most, low) : NAN;
        if (isnan(start))
            start = fmin(fmax(sum(x, NULL, n, most, 0.0) / mass, low), 0.0);
        if (!search(u, x, NULL, n, mass, most, low, 0.0, start, NULL, NULL, found))
            return 0;
        for (int again = 0; found->stiff > STIFF && found->threshold != 0.0 && again < RECENTERINGS; again++) {
            *center += found->threshold;
            low = least - *center;
            if (!search(u, x, NULL, n, mass, *center, low, most - *center, 0.0, NULL, NULL, found))
                return 0;
        }
    }
    return isfinite(found->value);
}

static int solved(Curve u, const Py_buffer *x, const double *w, double *work, const Py_buffer *tilt, double *center,
                  Answer *found)
{
    Py_ssize_t n = x->shape[0];
    double low, high, mass = (double)n, *z = work, *q = work + n;
    if (!centered(u, x, w, z, &low, center))
        return 0;
    if (w != NULL) {
        mass = 0.0;
        for (Py_ssize_t i = 0; i < n; i++)
            mass += w[i];
    }
    if (u.kind == EXPONENTIAL)
        *found = log_mean_exp(u, z, w, n, mass, 0.0, q);
    else if (u.kind == LINEAR)
        *found = mean_and_variance(u, z, w, n, mass, 0.0, q);
    else {
        double mean = sum(z, w, n, 0.0, 0.0) / mass;
        mean = mean < low ? low : mean > 0.0 ? 0.0 : mean;
        if (!search(u, z, w, n, mass, 0.0, low, 0.0, mean, q, work + 2 * n, found))
            return 0;
        /* The greatest loss may lie so far off that losses less it have few digits left. Once the threshold is known
           roughly they are taken less that, unless the rounding is harmless. */
        for (int again = 0; found->stiff > STIFF && found->threshold != 0.0 && again < RECENTERINGS; again++) {
            *center += found->threshold;
            recentered(x, w, z, *center, &low, &high);
            if (!search(u, z, w, n, mass, 0.0, low, high, 0.0, q, work + 2 * n, found))
                return 0;
        }
    }
    if (!isfinite(found->value))
        return 0;
    double scale = 1.0 / found->total;
    for (Py_ssize_t i = 0; i < n; i++)
        put(tilt, i, scale * q[i] * (w == NULL ? 1.0 : w[i]));
    return 1;
}

PyDoc_STRVAR(sums_doc, "sums(kind, a, b, z, weights, center, s, low, /) -> (slopes, curvatures, value)\n--\n\n"
                       "Sums over the losses z of slope and curvature at (z - center) - s, and of u(x0 + y) - u(x0)\n"
                       "unless low, the least z - center of all, is None; nothing is written.");

static PyObject *sums(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Curve u;
    Py_buffer z, w;
    PyObject *answer = NULL;
    if (take(count, 8, "sums(kind, a, b, z, weights, center, s, low)") < 0 || curve(args, &u) < 0)
        return NULL;
    int weighted = args[4] != Py_None, valued = args[7] != Py_None;
    double center = PyFloat_AsDouble(args[5]), s = PyFloat_AsDouble(args[6]), total = 0.0;
    double low = valued ? PyFloat_AsDouble(args[7]) : 0.0;
    if (PyErr_Occurred() || floats(args[3], &z, 0, 0, "z") < 0)
        return NULL;
    if (weighted && floats(args[4], &w, 0, 0, "weights") < 0)
        goto without_weights;
    Py_ssize_t n = z.shape[0];
    if (!weighted || same_size(n, w.shape[0], "weights") == 0) {
        const double *mass = weighted ? w.buf : NULL;
        Sums found;
        Py_BEGIN_ALLOW_THREADS found = pass(u, z.buf, mass, n, center, s, NULL, NULL);
        if (valued && u.kind != EXPONENTIAL && u.kind != LINEAR)
            total = risen_alone(u, z.buf, mass, n, center, s, low);
        Py_END_ALLOW_THREADS answer = Py_BuildValue("ddd", found.slope, found.curvature, total);
    }
    if (weighted)
        PyBuffer_Release(&w);
without_weights:
    PyBuffer_Release(&z);
    return answer;
}

PyDoc_STRVAR(kinked_doc, "kinked(parts, kinks, level, z, weights, low, high, guess, width, q, /) -> (t, mean) or None\n"
                         "--\n\nThe threshold of curves, straight lines and kinks together, and the mean of the slopes\n"
                         "written into q unless that is None; losses on a kink share what is missing from a mean of 1.\n"
                         "Parts are rows of (weight, kind, a, b, offset), kinks of (at, jump).");

static PyObject *kinked_of(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer parts, kinks, z, w, q;
    PyObject *answer = NULL;
    double number[5];
    if (take(count, 10, "kinked(parts, kinks, level, z, weights, low, high, guess, width, q)") < 0)
        return NULL;
    for (int i = 0; i < 5; i++)
        number[i] = PyFloat_AsDouble(args[i == 0 ? 2 : i + 4]);
    if (PyErr_Occurred() || floats(args[0], &parts, 0, 0, "parts") < 0)
        return NULL;
    if (floats(args[1], &kinks, 0, 0, "kinks") < 0)
        goto without_kinks;
    if (floats(args[3], &z, 0, 0, "z") < 0)
        goto without_losses;
    int weighted = args[4] != Py_None, written = args[9] != Py_None;
    if (weighted && floats(args[4], &w, 0, 0, "weights") < 0)
        goto without_weights;
    if (written && floats(args[9], &q, 1, 0, "q") < 0)
        goto without_slopes;
    Py_ssize_t n = z.shape[0];
    if ((!weighted || same_size(n, w.shape[0], "weights") == 0) && (!written || same_size(n, q.shape[0], "q") == 0)) {
        Mixed u = {parts.buf, kinks.buf, parts.shape[0] / 5, kinks.shape[0] / 2, number[0], z.buf,
                   weighted ? w.buf : NULL, n, weighted ? 1.0 : (double)n};
        double t = 0.0, mean = 1.0;
        int good, on_kink = 0;
        double *work = written ? PyMem_Malloc((size_t)(n + 1) * sizeof(double)) : NULL;
        if (written && work == NULL) {
            PyErr_NoMemory();
            goto done;
        }
        Py_BEGIN_ALLOW_THREADS good = n > 0 && kinked(&u, number[1], number[2], number[3], number[4], &t, &on_kink);
        if (good && written)
            mean = mixed_slopes(&u, t, on_kink, q.buf, work);
        Py_END_ALLOW_THREADS PyMem_Free(work);
        if (good)
            answer = Py_BuildValue("dd", t, mean);
        else {
            answer = Py_None;
            Py_INCREF(answer);
        }
    }
done:
    if (written)
        PyBuffer_Release(&q);
without_slopes:
    if (weighted)
        PyBuffer_Release(&w);
without_weights:
    PyBuffer_Release(&z);
without_losses:
    PyBuffer_Release(&kinks);
without_kinks:
    PyBuffer_Release(&parts);
    return answer;
}

/* -- moments of tilted losses: what the scale of a ball is found from ---------------------------------------------- */

typedef struct {
    double zeroth, first, second;
} Moments;

#define MOMENTS(ONE, ...)                                                                                              \
    SUM_OF(zeroth, first, second) for (Py_ssize_t i = 0; i < n; i++)                                                   \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
        double mass = ONE;                                                                                             \
        zeroth += mass * e;                                                                                            \
        first += mass * (e * v);                                                                                       \
        second += mass * (e * v * v);                                                                                  \
    }

/* Of v = z with e = exp(a z), which is written. */
WIDE static Moments exponential_moments(double a, const double *z, const double *w, Py_ssize_t n, double *out)
{
    double zeroth = 0.0, first = 0.0, second = 0.0;
    if (w == NULL)
        MOMENTS(1.0, double v = z[i]; double e = exponential(a * v); out[i] = e;)
    else
        MOMENTS(w[i], double v = z[i]; double e = exponential(a * v); out[i] = e;)
    return (Moments){zeroth, first, second};
}

/* Of v = z - a with e = 1 where that is positive, else 0. */
WIDE static Moments positive_moments(double a, const double *z, const double *w, Py_ssize_t n)
{
    double zeroth = 0.0, first = 0.0, second = 0.0;
    if (w == NULL)
        MOMENTS(1.0, double v = z[i] - a; double e = v > 0.0 ? 1.0 : 0.0;)
    else
        MOMENTS(w[i], double v = z[i] - a; double e = v > 0.0 ? 1.0 : 0.0;)
    return (Moments){zeroth, first, second};
}

/* Of v = z - a with e = 1. */
WIDE static Moments all_moments(double a, const double *z, const double *w, Py_ssize_t n)
{
    double zeroth = 0.0, first = 0.0, second = 0.0;
    if (w == NULL)
        MOMENTS(1.0, double v = z[i] - a; double e = 1.0;)
    else
        MOMENTS(w[i], double v = z[i] - a; double e = 1.0;)
    return (Moments){zeroth, first, second};
}

/* The same of many losses, summed in parts, so that roundings do not add up. */
#define SUMMED 4096

static Moments all_moments_of_many(double a, const double *z, const double *w, Py_ssize_t n)
{
    Moments found = {0.0, 0.0, 0.0};
    for (Py_ssize_t i = 0; i < n; i += SUMMED) {
        Moments part = all_moments(a, z + i, w == NULL ? NULL : w + i, n - i < SUMMED ? n - i : SUMMED);
        found.zeroth += part.zeroth;
        found.first += part.first;
        found.second += part.second;
    }
    return found;
}

PyDoc_STRVAR(moments_doc, "moments(kind, a, z, weights, out, /) -> (sum of e, of e v, of e v**2)\n--\n\n"
                          "EXPONENTIAL: v = z and e = exp(a z), written into out. POWER: v = z - a and e = (v > 0);\n"
                          "LINEAR: v = z - a and e = 1; out is None.");

static PyObject *moments(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer z, w, out;
    PyObject *answer = NULL;
    if (take(count, 5, "moments(kind, a, z, weights, out)") < 0)
        return NULL;
    long kind = PyLong_AsLong(args[0]);
    double a = PyFloat_AsDouble(args[1]);
    int weighted = args[3] != Py_None, written = kind == EXPONENTIAL;
    if (PyErr_Occurred())
        return NULL;
    if (kind != EXPONENTIAL && kind != POWER && kind != LINEAR) {
        PyErr_Format(PyExc_ValueError, "kind must be EXPONENTIAL, POWER or LINEAR; found %ld.", kind);
        return NULL;
    }
    if (floats(args[2], &z, 0, 0, "z") < 0)
        return NULL;
    if (weighted && floats(args[3], &w, 0, 0, "weights") < 0)
        goto without_weights;
    if (written && floats(args[4], &out, 1, 0, "out") < 0)
        goto without_out;
    Py_ssize_t n = z.shape[0];
    if ((!weighted || same_size(n, w.shape[0], "weights") == 0) &&
        (!written || same_size(n, out.shape[0], "out") == 0)) {
        const double *mass = weighted ? w.buf : NULL;
        Moments found;
        Py_BEGIN_ALLOW_THREADS found = written         ? exponential_moments(a, z.buf, mass, n, out.buf)
                                       : kind == POWER ? positive_moments(a, z.buf, mass, n)
                                                       : all_moments_of_many(a, z.buf, mass, n);
        Py_END_ALLOW_THREADS answer = Py_BuildValue("ddd", found.zeroth, found.first, found.second);
    }
    if (written)
        PyBuffer_Release(&out);
without_out:
    if (weighted)
        PyBuffer_Release(&w);
without_weights:
    PyBuffer_Release(&z);
    return answer;
}

/* The root b of b K'(b) - K(b) = radius, K(b) = ln E exp(b z), z <= 0, with exp(b z) in out; K(b) is `level`. The left
   side rises from 0 to `largest`; `goal` is -ln(1 - radius/largest), and `most` bounds b. As `_exponential` of
   risk/_inner.py, which says why the steps are what they are. */
#define FURTHEST 50.0 /* logarithm of a step that is none */

typedef struct {
    double rate, level;
} EntropyRoot;

static EntropyRoot entropy_root(const double *z, const double *w, Py_ssize_t n, double b, double radius, double largest,
                                double goal, double most, double tolerance, double *out)
{
    double left = 0.0, right = INFINITY, last = INFINITY, level;
    for (;;) {
        Moments m = exponential_moments(b, z, w, n, out);
        double first = m.first / m.zeroth, second = m.second / m.zeroth;
        double total = w == NULL ? m.zeroth / (double)n : m.zeroth;
        if (total < 0.5)
            level = log(total);
        else {
            double sum = 0.0;
            for (Py_ssize_t i = 0; i < n; i++)
                sum += (w == NULL ? 1.0 : w[i]) * expm1(b * z[i]);
            level = log1p(w == NULL ? sum / (double)n : sum);
        }
        double divergence = b * first - level, residual = fabs(divergence - radius);
        double enough = fmax(4.0 * DBL_EPSILON * (1.0 + fabs(level)), tolerance * radius);
        if (residual <= enough || (divergence < radius && b == most))
            break;
        if (divergence < radius)
            left = b;
        else
            right = b;
        if (!(residual <= 0.5 * last) && !(residual > 1e-9 * (1.0 + radius)))
            break; /* sums of rounded numbers wobble */
        double rise = b * b * (second - first * first), step = NAN;
        if (divergence > 0.0 && divergence < largest && rise > 0.0) {
            double now = -log1p(-divergence / largest);
            step = b * exp(fmin(log(goal / now) * now * (largest - divergence) / rise, FURTHEST));
        }
        if (!(left < step && step < right) || residual > 0.5 * last)
            step = left > 0.0 && right < INFINITY ? sqrt(left * right) : b * (left == b ? 4.0 : 0.25);
        step = fmin(step, most);
        if (step == b || (!(left < step && step < right) && step != most))
            break;
        last = residual;
        b = step;
    }
    return (EntropyRoot){b, level};
}

PyDoc_STRVAR(entropy_doc, "entropy_root(z, weights, b, radius, largest, goal, most, tolerance, out, /) -> (b, level)\n--\n\n"
                          "b at which the tilt exp(b z), written into out, has the relative entropy `radius`.");

static PyObject *entropy(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer z, w, out;
    PyObject *answer = NULL;
    double given[6];
    if (take(count, 9, "entropy_root(z, weights, b, radius, largest, goal, most, tolerance, out)") < 0)
        return NULL;
    for (int i = 0; i < 6; i++)
        given[i] = PyFloat_AsDouble(args[2 + i]);
    if (PyErr_Occurred())
        return NULL;
    int weighted = args[1] != Py_None;
    if (floats(args[0], &z, 0, 0, "z") < 0)
        return NULL;
    if (weighted && floats(args[1], &w, 0, 0, "weights") < 0)
        goto without_weights;
    if (floats(args[8], &out, 1, 0, "out") < 0)
        goto without_out;
    Py_ssize_t n = z.shape[0];
    if ((!weighted || same_size(n, w.shape[0], "weights") == 0) && same_size(n, out.shape[0], "out") == 0) {
        const double *mass = weighted ? w.buf : NULL;
        EntropyRoot found;
        Py_BEGIN_ALLOW_THREADS found = entropy_root(z.buf, mass, n, given[0], given[1], given[2], given[3], given[4],
                                                    given[5], out.buf);
        Py_END_ALLOW_THREADS answer = Py_BuildValue("dd", found.rate, found.level);
    }
    PyBuffer_Release(&out);
without_out:
    if (weighted)
        PyBuffer_Release(&w);
without_weights:
    PyBuffer_Release(&z);
    return answer;
}

/* Losses not below a into out, an array as long; returns how many there are. Each is written, and counted if it
   belongs there: no branch. */
WIDE static Py_ssize_t list_from(const double *z, Py_ssize_t n, double a, double *out)
{
    Py_ssize_t found = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        out[found] = z[i];
        found += z[i] >= a;
    }
    return found;
}

typedef struct {
    double above, excess;
    Py_ssize_t inside;
} Window;

/* Of losses not below the window, those above b: how many, and by how much in all; the others are put in front. */
WIDE static Window split_window(double *v, Py_ssize_t n, double b)
{
    double above = 0.0, excess = 0.0;
    SUM_OF(above, excess) for (Py_ssize_t i = 0; i < n; i++)
    {
        double over = v[i] - b;
        above += v[i] > b ? 1.0 : 0.0;
        excess += v[i] > b ? over : 0.0;
    }
    Py_ssize_t inside = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        double at = v[i];
        v[inside] = at;
        inside += at <= b;
    }
    return (Window){above, excess, inside};
}

PyDoc_STRVAR(window_doc, "window(z, a, b, inside, /) -> (least, greatest, above, excess, listed) or None\n--\n\n"
                         "Range of the losses z, number of those above b and their excess over it, and the number in\n"
                         "[a, b], which are written if they fit. None where one is not finite.");

static PyObject *window(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Py_buffer z, inside;
    if (take(count, 4, "window(z, a, b, inside)") < 0)
        return NULL;
    double a = PyFloat_AsDouble(args[1]), b = PyFloat_AsDouble(args[2]), least, most, spoilt;
    if (PyErr_Occurred() || floats(args[0], &z, 0, 0, "z") < 0)
        return NULL;
    if (floats(args[3], &inside, 1, 0, "inside") < 0) {
        PyBuffer_Release(&z);
        return NULL;
    }
    Py_ssize_t n = z.shape[0];
    double *v = PyMem_Malloc((size_t)(n + 1) * sizeof(double));
    Window found = {0.0, 0.0, 0};
    if (v != NULL) {
        Py_BEGIN_ALLOW_THREADS spoilt = range_of(z.buf, n, &least, &most);
        if (!isnan(spoilt)) {
            found = split_window(v, list_from(z.buf, n, a, v), b);
            if (found.inside <= inside.shape[0])
                memcpy(inside.buf, v, (size_t)found.inside * sizeof(double));
        }
        Py_END_ALLOW_THREADS PyMem_Free(v);
    }
    PyBuffer_Release(&inside);
    PyBuffer_Release(&z);
    if (v == NULL)
        return PyErr_NoMemory();
    if (isnan(spoilt))
        return Py_BuildValue("");
    return Py_BuildValue("ddddn", least, most, found.above, found.excess, found.inside);
}

/* The number that would stand at a rank if all were in rising order; those above it are none less. Pivots at random,
   and equal numbers put together, so that no order and no ties are slow. */
static double select_rank(double *v, Py_ssize_t n, Py_ssize_t rank)
{
    Py_ssize_t low = 0, high = n - 1;
    uint64_t state = 0x9E3779B97F4A7C15u;
    while (low < high) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        double pivot = v[low + (Py_ssize_t)(state % (uint64_t)(high - low + 1))];
        Py_ssize_t less = low, i = low, more = high; /* v[less .. i - 1] equal the pivot, beyond more all are above */
        while (i <= more) {
            double at = v[i];
            if (at < pivot)
                v[i++] = v[less], v[less++] = at;
            else if (at > pivot)
                v[i] = v[more], v[more--] = at;
            else
                i++;
        }
        if (rank < less)
            high = less - 1;
        else if (rank > more)
            low = more + 1;
        else
            return pivot;
    }
    return v[rank];
}

typedef struct {
    double at, excess;
} Tail;

/* The loss at a rank in rising order and the sum of what others exceed it by; v is as long as x. Of many losses a
   part predicts a window that holds it: those above are counted, those inside listed. */
static Tail upper_tail(const double *x, Py_ssize_t n, Py_ssize_t rank, double *v)
{
    if (n > 2048) {
        Py_ssize_t m = (Py_ssize_t)cbrt((double)n * (double)n);
        m = m < 512 ? 512 : m;
        uint64_t state = 0x9E3779B97F4A7C15u;
        for (Py_ssize_t i = 0; i < m; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            v[i] = x[state % (uint64_t)n];
        }
        double share = (double)rank / (double)n, slack = 5.0 * sqrt(share * (1.0 - share) / (double)m) + 2.0 / (double)m;
        double first = floor((double)m * (share - slack)), last = ceil((double)m * (share + slack));
        double a = first < 0.0 ? -INFINITY : select_rank(v, m, (Py_ssize_t)first);
        double b = last >= (double)m ? INFINITY : select_rank(v, m, (Py_ssize_t)last);
        Window found = split_window(v, list_from(x, n, a, v), b);
        Py_ssize_t inside = found.inside, above = (Py_ssize_t)found.above;
        Py_ssize_t at = rank - (n - above - inside); /* where it stands among those inside */
        if (at >= 0 && at < inside) {
            double quantile = select_rank(v, inside, at), excess = sum(v + at, NULL, inside - at, quantile, 0.0);
            if (above > 0)
                excess += found.excess + found.above * (b - quantile);
            return (Tail){quantile, excess};
        }
    }
    memcpy(v, x, (size_t)n * sizeof(double));
    double quantile = select_rank(v, n, rank);
    return (Tail){quantile, sum(v + rank, NULL, n - rank, quantile, 0.0)};
}

/* -- rows, and two linear pieces ---------------------------------------------------------------------------------- */

#define PIECES CURVES /* slope a left of the kink and b right of it: of value(), solve() and solve_rows() alone, as it has no curvature */

/* The threshold is a quantile; losses that tie there share the slope that is left to make the mean slope 1. */
static int two_pieces(Curve u, const Py_buffer *x, double *work, const Py_buffer *tilt, double *center, Answer *found)
{
    Py_ssize_t n = x->shape[0];
    double tail = (1.0 - u.a) / (u.b - u.a), mass = (double)n, spoilt = 0.0;
    Py_ssize_t above = (Py_ssize_t)(mass * tail * (1.0 + 4.0 * DBL_EPSILON));
    for (Py_ssize_t i = 0; i < n; i++) {
        work[i] = loss(x, i);
        spoilt += work[i] - work[i];
    }
    if (isnan(spoilt))
        return 0;
    double at = select_rank(work, n, n - 1 - (above < n ? above : n - 1));
    double over = 0.0, ties = 0.0, excess = 0.0, total = 0.0;
    for (Py_ssize_t i = 0; i < n; i++) {
        double y = loss(x, i) - at;
        work[i] = y;
        over += y > 0.0 ? 1.0 : 0.0;
        ties += y == 0.0 ? 1.0 : 0.0;
        excess += y > 0.0 ? y : 0.0;
        total += y;
    }
    double jump = u.b - u.a, left = mass * tail - over, share = jump * (left > 0.0 ? left : 0.0) / ties;
    for (Py_ssize_t i = 0; i < n; i++)
        put(tilt, i, (u.a + (work[i] > 0.0 ? jump : work[i] == 0.0 ? share : 0.0)) / mass);
    *center = at;
    *found = (Answer){(jump * excess + u.a * total) / mass, 0.0, 1.0, 0.0};
    return isfinite(found->value);
}

/* The same of float64 losses, without a tilt; v is as long as x. */
static int two_pieces_valued(Curve u, const double *x, Py_ssize_t n, double *v, double *center, Answer *found)
{
    double tail = (1.0 - u.a) / (u.b - u.a), least, most;
    Py_ssize_t above = (Py_ssize_t)((double)n * tail * (1.0 + 4.0 * DBL_EPSILON));
    if (isnan(range_of(x, n, &least, &most)))
        return 0;
    Tail upper = upper_tail(x, n, n - 1 - (above < n ? above : n - 1), v);
    double total = u.a == 0.0 ? 0.0 : u.a * sum(x, NULL, n, upper.at, 0.0);
    *center = upper.at;
    *found = (Answer){((u.b - u.a) * upper.excess + total) / (double)n, 0.0, 1.0, 0.0};
    return isfinite(found->value);
}

/* A curve, or two linear pieces. */
static int curve_or_pieces(PyObject *const *args, Curve *u)
{
    if (!(PyLong_Check(args[0]) && PyLong_AsLong(args[0]) == PIECES))
        return curve(args, u);
    *u = (Curve){PIECES, PyFloat_AsDouble(args[1]), PyFloat_AsDouble(args[2])};
    return PyErr_Occurred() ? -1 : 0;
}

/* Value and threshold of float64 losses, without weights and without a tilt; v is as long as x. */
static int valued_alone(Curve u, const double *x, Py_ssize_t n, double *v, double *center, Answer *found)
{
    return u.kind == PIECES ? two_pieces_valued(u, x, n, v, center, found) : valued(u, x, n, center, found);
}

PyDoc_STRVAR(value_doc, "value(kind, a, b, x, /) -> (value, threshold) or None\n--\n\n"
                        "What solve() returns for float64 losses without weights, and of two pieces; no tilt is made.");

static PyObject *value(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Curve u;
    Py_buffer x;
    double center;
    Answer found;
    if (take(count, 4, "value(kind, a, b, x)") < 0 || curve_or_pieces(args, &u) < 0 ||
        floats(args[3], &x, 0, 0, "x") < 0)
        return NULL;
    Py_ssize_t n = x.shape[0];
    int good = n > 0, pieces = u.kind == PIECES;
    double *v = pieces ? PyMem_Malloc((size_t)(n + 1) * sizeof(double)) : NULL;
    if (good && (v != NULL || !pieces)) {
        Py_BEGIN_ALLOW_THREADS good = valued_alone(u, x.buf, n, v, &center, &found);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&x);
    if (pieces && v == NULL)
        return PyErr_NoMemory();
    PyMem_Free(v);
    return good ? Py_BuildValue("dd", center + found.value, center + found.threshold) : Py_BuildValue("");
}

PyDoc_STRVAR(solve_doc, "solve(kind, a, b, x, weights, tilt, /) -> (value, threshold) or None\n--\n\n"
                        "OCE of the losses x less that of a constant loss of 0, and the threshold plus the anchor; the\n"
                        "tilt is written. None where losses are not finite, or the search does not converge, or two pieces\n"
                        "have weights.");

static PyObject *solve(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Curve u;
    Py_buffer x, w, tilt;
    PyObject *answer = NULL;
    if (take(count, 6, "solve(kind, a, b, x, weights, tilt)") < 0 || curve_or_pieces(args, &u) < 0)
        return NULL;
    if (floats(args[3], &x, 0, 1, "x") < 0)
        return NULL;
    int weighted = args[4] != Py_None;
    if (weighted && floats(args[4], &w, 0, 0, "weights") < 0)
        goto without_weights;
    if (floats(args[5], &tilt, 1, 1, "tilt") < 0)
        goto without_tilt;
    Py_ssize_t n = x.shape[0];
    if (same_size(n, tilt.shape[0], "tilt") < 0 || (weighted && same_size(n, w.shape[0], "weights") < 0))
        goto done;
    double *work = PyMem_Malloc((size_t)(3 * n + 1) * sizeof(double));
    if (work == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    int good;
    double center;
    Answer found;
    Py_BEGIN_ALLOW_THREADS if (u.kind == PIECES) good =
        n > 0 && !weighted && two_pieces(u, &x, work, &tilt, &center, &found);
    else good = n > 0 && solved(u, &x, weighted ? (const double *)w.buf : NULL, work, &tilt, &center, &found);
    Py_END_ALLOW_THREADS PyMem_Free(work);
    if (good)
        answer = Py_BuildValue("dd", center + found.value, center + found.threshold);
    else {
        answer = Py_None;
        Py_INCREF(answer);
    }
done:
    PyBuffer_Release(&tilt);
without_tilt:
    if (weighted)
        PyBuffer_Release(&w);
without_weights:
    PyBuffer_Release(&x);
    return answer;
}

PyDoc_STRVAR(solve_rows_doc, "solve_rows(kind, a, b, x, tilt, values, thresholds, /) -> bool\n--\n\n"
                             "solve() of each of the rows that x is made of, without weights; values and thresholds\n"
                             "have one number for each. Where tilt is None, x is float64 and none is made. False\n"
                             "where one of them cannot be solved.");

static PyObject *solve_rows(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Curve u;
    Py_buffer x, tilt, values, thresholds;
    PyObject *answer = NULL;
    if (take(count, 7, "solve_rows(kind, a, b, x, tilt, values, thresholds)") < 0 || curve_or_pieces(args, &u) < 0)
        return NULL;
    int tilted = args[4] != Py_None;
    if (floats(args[3], &x, 0, tilted, "x") < 0)
        return NULL;
    if (tilted && floats(args[4], &tilt, 1, 1, "tilt") < 0)
        goto without_tilt;
    if (floats(args[5], &values, 1, 0, "values") < 0)
        goto without_values;
    if (floats(args[6], &thresholds, 1, 0, "thresholds") < 0)
        goto without_thresholds;
    Py_ssize_t rows = values.shape[0], n = rows > 0 ? x.shape[0] / rows : 0;
    if (same_size(rows * n, x.shape[0], "x") < 0 || (tilted && same_size(x.shape[0], tilt.shape[0], "tilt") < 0) ||
        same_size(rows, thresholds.shape[0], "thresholds") < 0)
        goto done;
    double *work = PyMem_Malloc((size_t)(3 * n + 1) * sizeof(double));
    if (work == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    int good = n > 0;
    Py_BEGIN_ALLOW_THREADS for (Py_ssize_t row = 0; good && row < rows; row++)
    {
        double center;
        Answer found;
        if (tilted) {
            Py_buffer part = x, share = tilt;
            part.buf = (char *)x.buf + row * n * x.itemsize;
            share.buf = (char *)tilt.buf + row * n * tilt.itemsize;
            part.shape = share.shape = &n;
            good = u.kind == PIECES ? two_pieces(u, &part, work, &share, &center, &found)
                                    : solved(u, &part, NULL, work, &share, &center, &found);
        } else
            good = valued_alone(u, (const double *)x.buf + row * n, n, work, &center, &found);
        if (good) {
            ((double *)values.buf)[row] = center + found.value;
            ((double *)thresholds.buf)[row] = center + found.threshold;
        }
    }
    Py_END_ALLOW_THREADS PyMem_Free(work);
    answer = PyBool_FromLong(good);
done:
    PyBuffer_Release(&thresholds);
without_thresholds:
    PyBuffer_Release(&values);
without_values:
    if (tilted)
        PyBuffer_Release(&tilt);
without_tilt:
    PyBuffer_Release(&x);
    return answer;
}

static PyMethodDef methods[] = {
    {"slopes", (PyCFunction)(void (*)(void))slopes, METH_FASTCALL, slopes_doc},
    {"newton_from", (PyCFunction)(void (*)(void))newton_from_guess, METH_FASTCALL, newton_from_doc},
    {"value", (PyCFunction)(void (*)(void))value, METH_FASTCALL, value_doc},
    {"sums", (PyCFunction)(void (*)(void))sums, METH_FASTCALL, sums_doc},
    {"moments", (PyCFunction)(void (*)(void))moments, METH_FASTCALL, moments_doc},
    {"entropy_root", (PyCFunction)(void (*)(void))entropy, METH_FASTCALL, entropy_doc},
    {"kinked", (PyCFunction)(void (*)(void))kinked_of, METH_FASTCALL, kinked_doc},
    {"window", (PyCFunction)(void (*)(void))window, METH_FASTCALL, window_doc},
    {"solve", (PyCFunction)(void (*)(void))solve, METH_FASTCALL, solve_doc},
    {"solve_rows", (PyCFunction)(void (*)(void))solve_rows, METH_FASTCALL, solve_rows_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_fused", "Passes over a vector of losses, compiled.", 0, methods, NULL, NULL, NULL, NULL,
};

#ifndef CERTEQ_SOURCE
#define CERTEQ_SOURCE 0 /* built by hand: of unknown source */
#endif

PyMODINIT_FUNC PyInit__fused(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made == NULL)
        return NULL;
    const char *names[CURVES + 1] = {"EXPONENTIAL", "LOGISTIC", "ARCTANGENT", "POWER", "LINEAR", "PIECES"};
    for (int kind = 0; kind <= PIECES; kind++)
        if (PyModule_AddIntConstant(made, names[kind], kind) < 0) {
            Py_DECREF(made);
            return NULL;
        }
    if (PyModule_AddIntConstant(made, "SOURCE", (long)CERTEQ_SOURCE) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
