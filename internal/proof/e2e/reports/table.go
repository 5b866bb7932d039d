package main

import (
	"fmt"
	"slices"
	"strings"
)

// head is the page above its table.
const head = `# Reports of operators

Operators of schedulers reported these cases, or met them with Berth. Each row is a small
[file](../internal/proof/e2e/reports/testdata) of objects and steps, written for this project, that runs
against a real API server.

` + "`make reports`" + ` runs every case with Berth and with kube-scheduler 1.37. It fails if Berth is wrong
in any row, or if kube-scheduler's result differs from this table. The third column is "right" or
the first pod that differs. "Waits" means that the pod fits and is not retried in time.

| Area | Right | kube-scheduler 1.37 | Report |
|---|---|---|---|
`

// page renders the table of the outcomes with kube-scheduler.
func page(reports []*Report, outcomes map[string]string) string {
	rows := slices.Clone(reports)
	slices.SortStableFunc(rows, func(a, b *Report) int { return strings.Compare(a.Area, b.Area) })
	var b strings.Builder
	b.WriteString(head)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Area, r.Right, outcomes[r.Name], r.links())
	}
	return b.String()
}

// links are links to the file and to the upstream issue.
func (r *Report) links() string {
	file := fmt.Sprintf("[%s](../internal/proof/e2e/reports/testdata/%[1]s.yaml)", r.Name)
	repository, number, ok := strings.Cut(r.Issue, "#")
	if !ok {
		return file
	}
	_, short, _ := strings.Cut(repository, "/")
	return fmt.Sprintf("%s, [%s #%s](https://github.com/%s/issues/%[3]s)", file, short, number, repository)
}
