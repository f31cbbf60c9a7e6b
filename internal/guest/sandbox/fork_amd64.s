#include "textflag.h"

// func vfork(flags uintptr) (pid int, errno uintptr)
//
// The child runs on the parent's stack: the address to return to is kept in a
// register, which each has for itself.
TEXT ·vfork(SB), NOSPLIT|NOFRAME, $0-24
	MOVQ	flags+0(FP), DI
	XORL	SI, SI
	XORL	DX, DX
	XORL	R10, R10
	XORL	R8, R8
	MOVL	$56, AX // clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $-4096
	JHI	failed
	MOVQ	AX, pid+8(FP)
	MOVQ	$0, errno+16(FP)
	RET
failed:
	NEGQ	AX
	MOVQ	$0, pid+8(FP)
	MOVQ	AX, errno+16(FP)
	RET
