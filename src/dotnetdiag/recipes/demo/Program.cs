// The program that `dotnetdiag demo` records: it computes, allocates, throws now and then, until its input ends.
// Build: tools/build_demo (csc against the .NET Core 3.1 reference assemblies; newer runtimes roll forward).
using System;
using System.Collections.Generic;
using System.Threading;

static class Demo
{
    static long Primes(int limit)
    {
        long sum = 0;
        for (int n = 2; n < limit; n++)
        {
            bool prime = true;
            for (int d = 2; d * d <= n && prime; d++) prime = n % d != 0;
            if (prime) sum += n;
        }
        return sum;
    }

    static int Words(int count)
    {
        var seen = new Dictionary<string, int>();
        for (int i = 0; i < count; i++)
        {
            string word = "word" + (i % 997);
            seen.TryGetValue(word, out int times);
            seen[word] = times + 1;
        }
        return seen.Count;
    }

    static void Fail(int round)
    {
        try { throw new InvalidOperationException("round " + round); }
        catch (InvalidOperationException) { }
    }

    static void Main()
    {
        bool ended = false;
        var reader = new Thread(() => { while (Console.In.ReadLine() != null) { } Volatile.Write(ref ended, true); });
        reader.IsBackground = true;
        reader.Start();
        Console.WriteLine("ready");
        for (int round = 0; !Volatile.Read(ref ended); round++)
        {
            Primes(60000);
            Words(40000);
            if (round % 5 == 0) Fail(round);
            Thread.Sleep(5);
        }
    }
}
