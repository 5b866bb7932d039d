package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// table prints the outcomes of each package's faults.
func table(w io.Writer, packages []*source) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "PACKAGE\tFAULTS\tTRIED\tFOUND\tTHEREOF LATE\tLIVED\tDO NOT COMPILE\tEQUIVALENT\tFOUND OF TRIED\n")
	for _, p := range packages {
		share := "-"
		if p.tried() > 0 {
			share = fmt.Sprintf("%.1f %%", 100*float64(p.found())/float64(p.tried()))
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.ImportPath, p.all, p.tried(), p.found(), p.count[late], p.count[lived], p.count[broken], p.count[equivalent], share)
	}
	return t.Flush()
}

// verdicts returns the problems: packages whose tests found less than the minimum
// percentage, and outdated lists. A sample may be bad by chance. It counts only if fewer
// than one in a hundred samples of a package at the minimum would be as bad.
func verdicts(packages []*source, least int) (problems []string) {
	for _, p := range packages {
		for _, id := range p.outdated {
			problems = append(problems, fmt.Sprintf("%s: listed as equivalent, but there is no such fault: %s", p.ImportPath, id))
		}
		tried := p.tried()
		sample := tried+p.count[broken]+p.count[equivalent] < p.all
		if tried < enough || 100*p.found() >= least*tried || sample && atMost(p.found(), tried, float64(least)/100) >= 0.01 {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: its tests found %d of %d faults, which is less than %d %%", p.ImportPath, p.found(), tried, least))
	}
	return problems
}

// atMost is the probability of at most k successes in n independent trials with
// probability p: the sum of C(n,i) p^i (1-p)^(n-i).
func atMost(k, n int, p float64) (sum float64) {
	logFactorial := func(n int) float64 { v, _ := math.Lgamma(float64(n) + 1); return v }
	for i := range k + 1 {
		sum += math.Exp(logFactorial(n) - logFactorial(i) - logFactorial(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}
