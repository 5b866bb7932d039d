package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestReleases parses releases, and maps minor versions of an API server to them.
func TestReleases(t *testing.T) {
	for _, r := range Releases() {
		if got, err := ParseRelease(r.String()); err != nil || got != r {
			t.Errorf("ParseRelease(%v) = %v, %v", r, got, err)
		}
	}
	for _, text := range []string{"", "1.36", "1.39", "38", "v1.38", "1.38.0"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("ParseRelease(%q) = %v, want an error", text, got)
		}
	}
	for minor, want := range map[int]Release{0: Release37, 36: Release37, 37: Release37, 38: Release38, 39: Release38} {
		if got := ReleaseFor(minor); got != want {
			t.Errorf("ReleaseFor(%d) = %v, want %v", minor, got, want)
		}
	}
}

// TestRules expects one row for each field, with the field's name and a scenario that
// exists if it names one. A release has all rules up to it.
func TestRules(t *testing.T) {
	var none rules
	fields := reflect.TypeFor[rules]()
	table := Rules()
	if len(table) != fields.NumField() {
		t.Errorf("%d rows for %d fields", len(table), fields.NumField())
	}
	for i, rule := range table {
		on := none
		*rule.field(&on) = true
		if name := fields.Field(i).Name; name != rule.Name || !reflect.ValueOf(on).Field(i).Bool() {
			t.Errorf("row %d is %s, and the field is %s", i, rule.Name, name)
		}
		if _, err := os.Stat("../proof/scenario/testdata/" + rule.Scenario + ".scenario"); rule.Scenario != "" && err != nil {
			t.Errorf("%s: %v", rule.Name, err)
		}
		if off := rulesOf(rule.Since - 1); *rule.field(&off) {
			t.Errorf("%s is on before %v", rule.Name, rule.Since)
		}
		if from := rulesOf(rule.Since); !*rule.field(&from) {
			t.Errorf("%s is off in %v", rule.Name, rule.Since)
		}
	}
}

// TestFor builds a configuration for other releases and for single rules.
func TestFor(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	newer, err := c.For(Release38)
	if err != nil {
		t.Fatal(err)
	}
	if c.Release() != Release37 || newer.Release() != Release38 || newer.Profiles[0] == c.Profiles[0] {
		t.Errorf("releases %v and %v", c.Release(), newer.Release())
	}
	if again, err := newer.For(Release38); err != nil || again != newer {
		t.Errorf("the same release: a copy, %v", err)
	}
	read, err := Read(Request{Release: Release38})
	if err != nil || read.Release() != Release38 {
		t.Errorf("Read: %v", err)
	}
	for _, rule := range Rules() {
		if _, err := c.ForRule(rule.Name); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.ForRule("noRule"); err == nil {
		t.Error("an unknown rule: no error")
	}
}

// TestRulesInDocs expects the table of docs/versions.md to have the rows of the table in
// code.
func TestRulesInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/versions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		test := "–"
		if rule.Scenario != "" {
			test = "[scenario](../internal/proof/scenario/testdata/" + rule.Scenario + ".scenario)"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", rule.Name, rule.Before, rule.After, rule.Affects, test)
		if !strings.Contains(string(page), row) {
			t.Errorf("the page lacks the row\n%s", row)
		}
	}
}
