// SPDX-License-Identifier: GPL-2.0
#include "absent.h"

#include <dirent.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "out.h"

/* Tests have a root of their own. */
#ifndef ROOT
#define ROOT ""
#endif

#define MODULES ROOT "/lib/modules"
#define DKMS ROOT "/var/lib/dkms/xway"

/* What ends a file that is signed: the kernel's MODULE_SIG_STRING. */
#define SIGNED "~Module signature appended~\n"

static char found[4096];

/* A link may lead to nothing, as those in weak-updates may. */
static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	static const char *const names[] = { "xway.ko", "xway.ko.xz", "xway.ko.zst", "xway.ko.gz" };

	(void)st;
	if (type != FTW_F && type != FTW_SL)
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(path + ftw->base, names[i]) || access(path, F_OK))
			continue;
		snprintf(found, sizeof(found), "%s", path);
		return 1;
	}
	return 0;
}

/* The path of the module for a kernel, until the next call; NULL if there is none. */
static const char *find_module(const char *kernel)
{
	char path[512];

	snprintf(path, sizeof(path), MODULES "/%s", kernel);
	/* Not into links: those to the kernel's headers are here, too. */
	return nftw(path, visit, 16, FTW_PHYS) == 1 ? found : NULL;
}

static json_t *other_kernels(const char *kernel)
{
	json_t *others = json_array();
	struct dirent *e;
	DIR *dir = opendir(MODULES);

	if (!dir)
		return others;
	while ((e = readdir(dir)))
		if (*e->d_name != '.' && strcmp(e->d_name, kernel) && find_module(e->d_name))
			json_array_append_new(others, json_string(e->d_name));
	closedir(dir);
	return others;
}

/* true, false, or null: what is compressed shows no signature. */
static json_t *is_signed(const char *module)
{
	char end[sizeof(SIGNED)] = "";
	const char *dot = strrchr(module, '.');
	FILE *file;
	bool is;

	if (!dot || strcmp(dot, ".ko"))
		return json_null();
	file = fopen(module, "re");
	if (!file)
		return json_null();
	is = !fseek(file, -(long)strlen(SIGNED), SEEK_END) &&
	     fread(end, 1, strlen(SIGNED), file) == strlen(SIGNED) && !strcmp(end, SIGNED);
	fclose(file);
	return json_boolean(is);
}

static bool has(const char *file, const char *words[2])
{
	char line[128] = "";
	FILE *f = fopen(file, "re");

	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	fclose(f);
	return strstr(line, words[0]) || strstr(line, words[1]);
}

static bool signed_only(void)
{
	return has(ROOT "/sys/module/module/parameters/sig_enforce",
		   (const char *[]){ "Y", "1" }) ||
	       has(ROOT "/sys/kernel/security/lockdown",
		   (const char *[]){ "[integrity]", "[confidentiality]" });
}

static bool exists(const char *format, const char *word, char *path, size_t len)
{
	snprintf(path, len, format, word);
	return !access(path, F_OK);
}

/* The newest version that dkms has, or null. */
static json_t *dkms_version(void)
{
	char path[512], version[256] = "";
	struct dirent *e;
	DIR *dir = opendir(DKMS);

	if (!dir)
		return json_null();
	while ((e = readdir(dir)))
		if (strverscmp(e->d_name, version) > 0 && *e->d_name != '.' &&
		    exists(DKMS "/%s/source", e->d_name, path, sizeof(path)))
			snprintf(version, sizeof(version), "%s", e->d_name);
	closedir(dir);
	return *version ? json_string(version) : json_null();
}

static json_t *failed_log(const char *version)
{
	char path[512];

	/* A build that ends well moves it elsewhere. */
	return exists(DKMS "/%s/build/make.log", version, path, sizeof(path)) ? json_string(path) :
										json_null();
}

json_t *absent_find(void)
{
	struct utsname uts = { .release = "" };
	const char *module;
	json_t *absent;
	char path[512];

	uname(&uts);
	module = find_module(uts.release);
	absent = json_pack("{s:b, s:s, s:s?, s:o}", "loaded", 0, "kernel", uts.release, "module",
			   module, "signed", module ? is_signed(module) : json_null());
	json_object_set_new(absent, "signed_only", json_boolean(signed_only()));
	json_object_set_new(absent, "kernels", other_kernels(uts.release));
	json_object_set_new(absent, "headers",
			    json_boolean(exists(MODULES "/%s/build/Makefile", uts.release, path,
						sizeof(path))));
	json_object_set_new(absent, "dkms", dkms_version());
	json_object_set_new(absent, "log", failed_log(out_str(absent, "dkms")));
	return absent;
}

static void print_found(const json_t *absent)
{
	fprintf(stderr, "  It is installed: %s\n", out_str(absent, "module"));
	if (json_is_true(json_object_get(absent, "signed_only"))) {
		fputs("  This kernel loads only modules that are signed with a key that it trusts,\n",
		      stderr);
		if (json_is_false(json_object_get(absent, "signed"))) {
			fputs("  and this one is not signed: see Secure Boot in operating.md.\n",
			      stderr);
			return;
		}
		fputs("  see Secure Boot in operating.md.\n", stderr);
	}
	fputs("  To load it: modprobe xway\n", stderr);
}

static void print_missing(const json_t *absent)
{
	const char *kernel = out_str(absent, "kernel");
	const json_t *others = json_object_get(absent, "kernels"), *other;
	size_t i;

	fprintf(stderr, "  There is none for this kernel, %s", kernel);
	json_array_foreach(others, i, other)
		fprintf(stderr, "%s%s", i ? ", " : ", but for ", json_string_value(other));
	fputs(".\n", stderr);
	if (json_is_null(json_object_get(absent, "dkms"))) {
		fputs("  dkms does not know of it. Install the package xway-dkms.\n", stderr);
		return;
	}
	if (!json_is_true(json_object_get(absent, "headers")))
		fprintf(stderr,
			"  The headers of this kernel are not there. Install them: linux-headers-%s on Debian,\n"
			"  kernel-devel-%s on Fedora and EL, kernel-default-devel on SUSE.\n",
			kernel, kernel);
	if (!json_is_null(json_object_get(absent, "log")))
		fprintf(stderr, "  The last build failed: %s\n", out_str(absent, "log"));
	fprintf(stderr, "  To build it: dkms install xway/%s -k %s\n", out_str(absent, "dkms"),
		kernel);
}

void absent_print(const json_t *absent)
{
	fputs("xway: the module is not loaded, and connections stay on TCP\n", stderr);
	if (json_is_null(json_object_get(absent, "module")))
		print_missing(absent);
	else
		print_found(absent);
}
