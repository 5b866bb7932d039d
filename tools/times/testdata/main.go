// Command testdata is a small program for TestTimed, which may start go.
package main

import (
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) > 1 {
		_ = exec.Command(os.Args[1], "run", "-h").Run()
	}
	_, _ = os.Stdout.WriteString("hello\n")
}
