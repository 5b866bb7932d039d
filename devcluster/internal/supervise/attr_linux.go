package supervise

import "syscall"

// attributes ties a child to its parent: the kernel kills it when the thread that started
// it ends. A separate process group keeps a terminal's Ctrl-C from the child, because the
// parent stops its clients first.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
