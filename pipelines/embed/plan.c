/* Plans a pipeline with only the public headers. It prints the stages, the link formats, the threads and the memory.
 * `millrace plan` prints the same view. Nothing runs.
 *
 *     cc plan.c $(pkg-config --cflags --libs millrace) -o plan && ./plan embed.yaml */
#include <millrace/millrace.h>
#include <millrace/plan.h>
#include <stdio.h>

static void show_stages(const mr_plan_view *plan) {
    for (size_t i = 0; i < plan->stage_count; i++) {
        const mr_view_stage *stage = &plan->stages[i];
        printf("%s %s: %s on %s\n", stage->input_count ? "stage" : "source", stage->id, stage->type->name,
               stage->devices.names);
    }
}

static void show_links(const mr_plan_view *plan) {
    char format[256];
    for (size_t i = 0; i < plan->link_count; i++) {
        const mr_view_link *link = &plan->links[i];
        const mr_view_stage *from = &plan->stages[link->from], *to = &plan->stages[link->to];
        printf("link %s to %s: %s, queue of %d\n", from->id, to->id,
               mr_format_set_print(&from->outputs[link->from_port].set, format, sizeof format), to->queue);
    }
}

static void show_costs(const mr_plan_view *plan) {
    for (size_t i = 0; i < plan->thread_count; i++)
        printf("thread %s: %d\n", *plan->threads[i].name ? plan->threads[i].name : "of libraries",
               plan->threads[i].count);
    for (size_t i = 0; i < plan->row_count; i++)
        printf("memory of %s, %s: at most %llu bytes\n", plan->rows[i].of, plan->rows[i].what,
               (unsigned long long)plan->rows[i].most.bytes);
    printf("memory of the host: at most %llu bytes\n", (unsigned long long)plan->host.bytes);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: plan PIPELINE.yaml\n");
        return 64;
    }
    const mr_plan_view *plan;
    mr_diagnostics wrong = {0};
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = argv[1]};
    int status = mr_plan_view_open(&plan, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    if (status)
        return mr_status_exit_code(status);
    show_stages(plan);
    show_links(plan);
    show_costs(plan);
    mr_plan_view_close(&plan);
    return 0;
}
