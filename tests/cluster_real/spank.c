/* Stands for pyxis: srun knows its two options, and each step writes what it was given into the plug-in's file. */
#include <stdio.h>
#include <slurm/spank.h>

SPANK_PLUGIN(pyxis_stand_in, 1);

static const char *path;

static int take(int val, const char *given, int remote) {
    FILE *file = remote ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", given);
        fclose(file);
    }
    return 0;
}

static struct spank_option options[] = {
    {"container-image", "IMAGE", "image", 1, 0, (spank_opt_cb_f)take},
    {"container-mounts", "SRC:DST[,SRC:DST...]", "mounts", 1, 0, (spank_opt_cb_f)take},
};

int slurm_spank_init(spank_t spank, int count, char **words) {
    path = words[0];
    for (int i = 0; spank_context() != S_CTX_ALLOCATOR && i < 2; i++)
        spank_option_register(spank, &options[i]);
    return 0;
}
