/* A stand-in for libnvidia-ml.so.1: answers from files in the directory DIRECTORY, which the tests write.
 *
 * cards: "card UUID|NAME|MINOR|ADDRESS|TOTAL|USED|BUSY|PARTED|ERRORS|LOST|PIDS|LINKS" for each card (PIDS and LINKS are
 *        lists with commas; a link leads to an address or to "switch"), then
 *        "part CARD|UUID|NAME|GI|CI|SLICES|MEBIBYTES|USED|PIDS" for each part. "-" is an empty field.
 * event: "UUID TYPE DATA": an error, which is told once.
 * samples: "MICROSECONDS PERCENT" for each sample of the utilisation of all cards; without it, none are supported.
 * hang:  a pipe: while it is there, questions for the utilisation wait until somebody writes to it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SUCCESS, INVALID = 2, NOT_SUPPORTED, NOT_FOUND = 6, SMALL, TIMEOUT = 10, LOST = 15 };
#define MOST 64

struct device {
    int is_part, card, minor, parted, lost, gi, ci, slices;
    char id[96], name[96], address[32], pids[256], links[512];
    unsigned long long total, used, mebibytes, errors;
    unsigned busy;
};

static struct device all[MOST];
static int count;

static const char *in(const char *name) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", DIRECTORY, name);
    return path;
}

static void read_all(void) {
    char line[2048];
    FILE *file = fopen(in("cards"), "r");
    count = 0;
    if (!file) return;
    while (fgets(line, sizeof line, file) && count < MOST) {
        struct device *d = &all[count];
        memset(d, 0, sizeof *d);
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "card %95[^|]|%95[^|]|%d|%31[^|]|%llu|%llu|%u|%d|%llu|%d|%255[^|]|%511[^|]", d->id, d->name,
                   &d->minor, d->address, &d->total, &d->used, &d->busy, &d->parted, &d->errors, &d->lost, d->pids,
                   d->links) == 12) count++;
        else if (sscanf(line, "part %d|%95[^|]|%95[^|]|%d|%d|%d|%llu|%llu|%255[^|]", &d->card, d->id, d->name, &d->gi,
                        &d->ci, &d->slices, &d->mebibytes, &d->used, d->pids) == 9) {
            d->is_part = 1;
            d->total = d->mebibytes << 20;
            count++;
        }
    }
    fclose(file);
}

static struct device *of(void *handle) { return &all[(intptr_t)handle - 1]; }
static void *handle_of(int place) { return (void *)(intptr_t)(place + 1); }

static int copy(char *to, unsigned length, const char *from) {
    if (strlen(from) >= length) return SMALL;
    strcpy(to, from);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int error) { return error == LOST ? "GPU is lost" : "some error"; }

int nvmlDeviceGetCount_v2(unsigned *number) {
    read_all();
    *number = 0;
    for (int i = 0; i < count; i++) *number += !all[i].is_part;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    read_all();
    for (int i = 0; i < count; i++)
        if (!all[i].is_part && !index--) {
            *handle = handle_of(i);
            return all[i].lost ? LOST : SUCCESS;
        }
    return INVALID;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) { return copy(text, length, of(handle)->id); }
int nvmlDeviceGetName(void *handle, char *text, unsigned length) { return copy(text, length, of(handle)->name); }
int nvmlDeviceGetMinorNumber(void *handle, unsigned *minor) { *minor = of(handle)->minor; return SUCCESS; }

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    struct device *d = of(handle);
    unsigned long long used = d->used + (1 << 30);
    *memory = (struct memory){d->total, d->total - used, used};
    return SUCCESS;
}

/* The driver keeps 1 GiB of each card for itself. */
struct memory2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory2 *memory) {
    struct device *d = of(handle);
    if (!access(in("old"), F_OK)) return NOT_SUPPORTED;
    if (memory->version != (sizeof *memory | 2 << 24)) return INVALID;
    *memory = (struct memory2){memory->version, d->total, 1 << 30, d->total - d->used - (1 << 30), d->used};
    return SUCCESS;
}

union value { double real; unsigned number; unsigned long long large; };
struct sample { unsigned long long at; union value value; };
int nvmlDeviceGetSamples(void *handle, int kind, unsigned long long since, int *type, unsigned *number, struct sample *list) {
    unsigned long long at;
    unsigned percent, found = 0;
    FILE *file = fopen(in("samples"), "r");
    if (!file || of(handle)->is_part || kind != 1) {
        if (file) fclose(file);
        return NOT_SUPPORTED;
    }
    while (fscanf(file, "%llu %u", &at, &percent) == 2)
        if (at > since) {
            if (list && found < *number) list[found] = (struct sample){at, {.number = percent}};
            found++;
        }
    fclose(file);
    *type = 1;
    *number = found;
    return found ? SUCCESS : NOT_FOUND;
}

struct rates { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct rates *rates) {
    if (!access(in("hang"), F_OK)) {
        char byte;
        int pipe = open(in("hang"), O_RDONLY);
        if (read(pipe, &byte, 1) < 0) return INVALID;
        close(pipe);
    }
    if (of(handle)->is_part) return NOT_SUPPORTED;
    *rates = (struct rates){of(handle)->busy, 0};
    return SUCCESS;
}

struct process { unsigned pid; unsigned long long memory; unsigned gi, ci; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *number, struct process *list) {
    char pids[256], *rest = pids, *pid;
    unsigned room = *number;
    strcpy(pids, of(handle)->pids);
    *number = 0;
    while ((pid = strsep(&rest, ",")))
        if (atoi(pid)) {
            if (*number < room) list[*number] = (struct process){atoi(pid), 1 << 20, 0, 0};
            ++*number;
        }
    return *number > room ? SMALL : SUCCESS;
}

struct address { char old[16]; unsigned domain, bus, device, id, subsystem; char text[32]; };
int nvmlDeviceGetPciInfo_v3(void *handle, struct address *address) {
    memset(address, 0, sizeof *address);
    return copy(address->text, sizeof address->text, of(handle)->address);
}

static const char *link_of(void *handle, unsigned link) {
    static char links[512];
    char *rest = links, *one;
    strcpy(links, of(handle)->links);
    while ((one = strsep(&rest, ",")))
        if (strcmp(one, "-") && !link--) return one;
    return 0;
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *active) {
    *active = link_of(handle, link) != 0;
    return *active ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, unsigned *type) {
    *type = strcmp(link_of(handle, link), "switch") ? 0 : 2;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, struct address *address) {
    memset(address, 0, sizeof *address);
    return copy(address->text, sizeof address->text, link_of(handle, link));
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    *current = *pending = of(handle)->parted;
    return of(handle)->parted < 0 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *number) { (void)handle; *number = 7; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **part) {
    int card = 0;
    for (int i = 0; i < (intptr_t)handle - 1; i++) card += !all[i].is_part;
    for (int i = 0; i < count; i++)
        if (all[i].is_part && all[i].card == card && !index--) {
            *part = handle_of(i);
            return SUCCESS;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *id) { *id = of(handle)->gi; return SUCCESS; }
int nvmlDeviceGetComputeInstanceId(void *handle, unsigned *id) { *id = of(handle)->ci; return SUCCESS; }

struct measures { unsigned processors, copy, decoders, encoders, jpeg, ofa, slices, ci_slices; unsigned long long mebibytes; };
int nvmlDeviceGetAttributes_v2(void *handle, struct measures *measures) {
    *measures = (struct measures){.slices = of(handle)->slices, .mebibytes = of(handle)->mebibytes};
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(void *handle, unsigned kind, unsigned counter, unsigned long long *errors) {
    (void)kind, (void)counter;
    *errors = of(handle)->errors;
    return SUCCESS;
}

int nvmlEventSetCreate(void **set) { *set = handle_of(0); return SUCCESS; }
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
    (void)handle, (void)types, (void)set;
    return SUCCESS;
}

struct event { void *device; unsigned long long type, data; unsigned gi, ci; };
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
    char id[96];
    unsigned long long type, data;
    FILE *file;
    (void)set;
    for (unsigned waited = 0; !(file = fopen(in("event"), "r")); waited += 10) {
        if (waited >= timeout_ms) return TIMEOUT;
        poll(0, 0, 10);
    }
    if (fscanf(file, "%95s %llu %llu", id, &type, &data) != 3) return INVALID;
    fclose(file);
    unlink(in("event"));
    for (int i = 0; i < count; i++)
        if (!strcmp(all[i].id, id)) {
            *event = (struct event){handle_of(i), type, data, 0, 0};
            return SUCCESS;
        }
    return INVALID;
}
