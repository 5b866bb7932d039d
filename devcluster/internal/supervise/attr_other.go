//go:build unix && !linux

package supervise

import "syscall"

// attributes cannot tie a child to its parent here, because only Linux signals a child
// when its parent dies. A parent killed with SIGKILL leaves its children behind.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
