package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// excludedBy is the annotation of a flag that lists the flags which contradict it.
const excludedBy = "berth_excluded_by"

// exclude makes a command refuse a flag together with each of the others, because each of
// them would make the other one meaningless. refuse checks it.
func exclude(flags *pflag.FlagSet, flag string, others ...string) {
	_ = flags.SetAnnotation(flag, excludedBy, others) // the flag exists
}

// refuse returns an error for flags that contradict each other, and for standard input
// that is named twice. It runs before each command.
func refuse(cmd *cobra.Command, _ []string) (err error) {
	flags := cmd.Flags()
	var inputs []string
	flags.Visit(func(flag *pflag.Flag) {
		for _, other := range flag.Annotations[excludedBy] {
			if flags.Changed(other) && err == nil {
				err = bothGiven(dashed(flag), dashed(flags.Lookup(other)))
			}
		}
		if _, file := flag.Annotations[cobra.BashCompFilenameExt]; file && flag.Name != "output" {
			for range standardInputs(flag) {
				inputs = append(inputs, dashed(flag)+" -")
			}
		}
	})
	if err == nil && len(inputs) > 1 {
		err = fmt.Errorf("%s are both given: standard input is read once, name a file", strings.Join(inputs, " and "))
	}
	if err != nil {
		return wrong{err}
	}
	return nil
}

// bothGiven is the error for two flags, or arguments, that contradict each other.
func bothGiven(a, b string) error {
	return fmt.Errorf("%s and %s are both given: give one of the two", a, b)
}

// dashed returns a flag as users type it.
func dashed(flag *pflag.Flag) string {
	if flag.Name == "filename" {
		return "-" + flag.Shorthand
	}
	return "--" + flag.Name
}

// standardInputs returns the values of a flag that name standard input.
func standardInputs(flag *pflag.Flag) []string {
	values := []string{flag.Value.String()}
	if many, ok := flag.Value.(pflag.SliceValue); ok {
		values = many.GetSlice()
	}
	return slices.DeleteFunc(values, func(name string) bool { return name != "-" })
}
