// SPDX-License-Identifier: GPL-2.0
#include "policy.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log.h"

#define BLANKS " \t\r\n\v\f"

/* A longer line is a mistake, or no configuration file at all. */
#define LINE_MAX_BYTES 65536

struct parser {
	const char *file;
	unsigned int line;
	char *error;
	struct policy *policy;
	char *rest;
};

static int fail(struct parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(struct parser *p, const char *format, ...)
{
	char what[POLICY_ERROR];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(p->error, POLICY_ERROR, "%.200s:%u: %.300s", p->file, p->line, what);
	return -1;
}

static void *grow(void *array, unsigned int n, size_t size)
{
	void *bigger = reallocarray(array, n + 1, size);

	if (!bigger)
		abort();
	return bigger;
}

static char *copy(const char *text)
{
	char *new = strdup(text);

	if (!new)
		abort();
	return new;
}

/* The next word of the line, or NULL at its end or at a comment. */
static char *next_word(struct parser *p)
{
	char *word;

	if (!p->rest)
		return NULL;
	word = strtok_r(NULL, BLANKS, &p->rest);
	if (word && word[0] == '#') {
		p->rest = NULL;
		return NULL;
	}
	return word;
}

static int check_domain(struct parser *p, const char *word)
{
	if (strchr("\"'", word[0]))
		return fail(p,
			    "%s: quotes mean nothing here, give a domain whose name has"
			    " spaces by its UUID",
			    word);
	return 0;
}

#define SERVICES "services="

static const struct {
	const char *name;
	unsigned int bit;
} services[] = {
	{ "sockets", SERVICE_SOCKETS },
	{ "net", SERVICE_NET },
};

static unsigned int service_bit(const char *name)
{
	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (!strcmp(services[i].name, name))
			return services[i].bit;
	return 0;
}

/* @word: "services=NAME[,NAME...]"; what has no such word allows sockets. */
static int parse_services(struct parser *p, char *word, unsigned int *allowed)
{
	char *list = word + strlen(SERVICES), *name;

	*allowed = 0;
	while ((name = strsep(&list, ","))) {
		unsigned int bit = service_bit(name);

		if (!bit)
			return fail(p, "'%s' is no service: expected 'sockets' or 'net'", name);
		if (*allowed & bit)
			return fail(p, "'%s' is given twice in '" SERVICES "'", name);
		*allowed |= bit;
	}
	return 0;
}

static bool is_services(const char *word)
{
	return word && !strncmp(word, SERVICES, strlen(SERVICES));
}

static int parse_allow(struct parser *p)
{
	unsigned int allowed = SERVICE_SOCKETS;
	char *word = next_word(p);

	if (!word)
		return fail(p, "'allow' needs a word after it: 'allow all'");
	if (strcmp(word, "all"))
		return fail(p, "'allow %s' is unknown, only 'allow all' is", word);
	word = next_word(p);
	if (is_services(word)) {
		if (parse_services(p, word, &allowed))
			return -1;
		word = next_word(p);
	}
	if (word)
		return fail(p, "'%s' is too much after 'allow all'", word);
	p->policy->allow_all |= allowed;
	return 0;
}

static int parse_group(struct parser *p)
{
	struct policy *policy = p->policy;
	char *name = next_word(p);
	struct group *group;
	char *word;

	if (!name)
		return fail(p, "'group' needs a name and domains: 'group NAME DOMAIN DOMAIN...'");
	if (is_services(name))
		return fail(p, "'%s' is no name: it comes after the name of the group", name);
	for (unsigned int i = 0; i < policy->n_groups; i++)
		if (!strcmp(policy->groups[i].name, name))
			return fail(p, "group '%s' is already defined in line %u", name,
				    policy->groups[i].line);

	policy->groups = grow(policy->groups, policy->n_groups, sizeof(*group));
	group = &policy->groups[policy->n_groups++];
	*group = (struct group){
		.name = copy(name),
		.line = p->line,
		.services = SERVICE_SOCKETS,
	};
	word = next_word(p);
	if (is_services(word)) {
		if (parse_services(p, word, &group->services))
			return -1;
		word = next_word(p);
	}
	for (; word; word = next_word(p)) {
		if (is_services(word))
			return fail(p, "'%s' must come right after the name of the group", word);
		for (unsigned int i = 0; i < group->n_members; i++)
			if (!strcmp(group->members[i], word))
				return fail(p, "'%s' is in group '%s' twice", word, name);
		if (check_domain(p, word))
			return -1;
		group->members = grow(group->members, group->n_members, sizeof(char *));
		group->members[group->n_members++] = copy(word);
	}
	if (!group->n_members)
		return fail(p, "group '%s' has no domains", name);
	return 0;
}

static int parse_address(struct parser *p)
{
	struct policy *policy = p->policy;
	char *who = next_word(p);
	const char *wrong;
	struct addr addr;
	bool any = false;
	char *word;

	if (!who)
		return fail(p,
			    "'address' needs a domain and addresses: 'address DOMAIN ADDRESS...'");
	if (check_domain(p, who))
		return -1;
	while ((word = next_word(p))) {
		wrong = addr_parse(word, &addr);
		if (wrong)
			return fail(p, "'%s' %s", word, wrong);
		for (unsigned int i = 0; i < policy->n_claims; i++)
			if (!strcmp(policy->claims[i].who, who) &&
			    !addr_compare(&policy->claims[i].addr, &addr))
				return fail(p, "'%s' is given to '%s' twice", word, who);
		policy->claims = grow(policy->claims, policy->n_claims, sizeof(struct claim));
		policy->claims[policy->n_claims++] = (struct claim){ copy(who), addr };
		any = true;
	}
	if (!any)
		return fail(p, "'address %s' has no addresses", who);
	return 0;
}

static const struct {
	const char *word;
	int (*parse)(struct parser *p);
} statements[] = {
	{ "allow", parse_allow },
	{ "group", parse_group },
	{ "address", parse_address },
};

static int parse_line(struct parser *p, char *line, size_t len)
{
	char *word;

	if (len > LINE_MAX_BYTES)
		return fail(p, "the line is longer than %d bytes", LINE_MAX_BYTES);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = line[i];

		/* Words go into error messages and, as they are, to the log. */
		if ((c < 0x20 && !(c && strchr(BLANKS, c))) || c == 0x7f)
			return fail(p, "byte 0x%02x at column %zu is not text", c, i + 1);
	}
	word = strtok_r(line, BLANKS, &p->rest);
	if (!word || word[0] == '#')
		return 0;
	for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++)
		if (!strcmp(word, statements[i].word))
			return statements[i].parse(p);
	return fail(p, "'%s' is unknown: expected 'allow', 'group' or 'address'", word);
}

struct policy *policy_parse(FILE *file, const char *name, char error[POLICY_ERROR])
{
	struct parser p = { .file = name, .error = error };
	char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int ret = 0;

	p.policy = calloc(1, sizeof(*p.policy));
	if (!p.policy)
		abort();
	while (!ret && (errno = 0, len = getline(&line, &size, file)) >= 0) {
		p.line++;
		ret = parse_line(&p, line, len);
	}
	if (!ret && ferror(file)) {
		snprintf(error, POLICY_ERROR, "%.400s: %s", name, strerror(errno));
		ret = -1;
	}
	free(line);
	if (!ret)
		return p.policy;
	policy_free(p.policy);
	return NULL;
}

struct policy *policy_load(const char *path, bool must_exist, char error[POLICY_ERROR])
{
	struct policy *policy;
	FILE *file;

	file = fopen(path, "re");
	if (!file && errno == ENOENT && !must_exist) {
		log_notice("%s does not exist: no domains may talk", path);
		file = fopen("/dev/null", "re");
	}
	if (!file) {
		snprintf(error, POLICY_ERROR, "%.400s: %s", path, strerror(errno));
		return NULL;
	}
	policy = policy_parse(file, path, error);
	fclose(file);
	return policy;
}

void policy_free(struct policy *policy)
{
	if (!policy)
		return;
	for (unsigned int i = 0; i < policy->n_groups; i++) {
		for (unsigned int m = 0; m < policy->groups[i].n_members; m++)
			free(policy->groups[i].members[m]);
		free(policy->groups[i].members);
		free(policy->groups[i].name);
	}
	for (unsigned int i = 0; i < policy->n_claims; i++)
		free(policy->claims[i].who);
	free(policy->groups);
	free(policy->claims);
	free(policy);
}

#define HOST "Domain-0"

static bool is_uuid(const char *word)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] == 'x' ? !isxdigit((unsigned char)word[i]) : word[i] != form[i])
			return false;
	return true;
}

/*
 * Names of some toolstacks are free text of whoever owns the domain. So none
 * stands for a UUID, or for domain 0.
 */
bool policy_means(const char *who, const struct subject *subject)
{
	if (is_uuid(who))
		return !strcasecmp(who, subject->uuid);
	if (!strcmp(who, HOST))
		return !subject->id;
	return subject->name && !strcmp(who, subject->name);
}

bool policy_group_has(const struct group *group, const struct subject *subject)
{
	for (unsigned int i = 0; i < group->n_members; i++)
		if (policy_means(group->members[i], subject))
			return true;
	return false;
}
